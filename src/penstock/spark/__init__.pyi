from penstock.spark.data_source import PenstockDataSource as PenstockDataSource
from penstock.spark.data_source import register as register
from penstock.spark.sessions import session as session
