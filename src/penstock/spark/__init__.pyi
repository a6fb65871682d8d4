from penstock.spark.sessions.session import session as session
from penstock.spark.source.data_source import PenstockDataSource as PenstockDataSource
from penstock.spark.source.data_source import register as register
