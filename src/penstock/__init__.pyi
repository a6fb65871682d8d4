from penstock import errors as errors
from penstock import spark as spark
from penstock import testing as testing
from penstock.client.blocking.client import BlockingClient as BlockingClient
from penstock.client.blocking.client import connect_blocking as connect_blocking
from penstock.client.client import Client as Client
from penstock.client.client import connect as connect
from penstock.client.consuming.consumer import Consumer as Consumer
from penstock.client.consuming.reader import PartitionColumns as PartitionColumns
from penstock.client.errors import DamagedBatch as DamagedBatch
from penstock.client.errors import DeliveryFailed as DeliveryFailed
from penstock.client.producing.producer import Producer as Producer
from penstock.client.producing.receipts import Receipt as Receipt
from penstock.model.errors import PenstockError as PenstockError
from penstock.records import Message as Message

__version__: str
