"""`penstock pipeline`: pipelines on Spark, and what they show."""
