"""What SNPE's registration libraries tell, and what SNPE does with them."""
