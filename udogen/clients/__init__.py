"""The programs that people run op packages in: what each must be told, and what their errors mean."""
