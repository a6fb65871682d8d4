from penstock import testing as testing
from penstock.client.blocking import connect_blocking as connect_blocking
from penstock.client.client import connect as connect

__version__: str
