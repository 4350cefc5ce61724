"""What SNPE's registration libraries have, and what SNPE does with them."""
