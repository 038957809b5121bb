"""In Django, with Channels for the WebSocket."""

import django
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path

settings.configure(
    DEBUG=False, SECRET_KEY="for tests only", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, INSTALLED_APPS=["channels"]
)
django.setup()


async def json(request):
    return JsonResponse({"framework": "django"})


def echo(request):
    return HttpResponse(request.body)


async def stream(request):
    async def parts():
        for number in range(100):
            yield f"{number}\n".encode() * 100

    return StreamingHttpResponse(parts())


async def fail(request):
    raise RuntimeError("raised on purpose")


class Echo(AsyncWebsocketConsumer):
    async def receive(self, text_data=None, bytes_data=None):
        await self.send(text_data=text_data, bytes_data=bytes_data)


urlpatterns = [path("json", json), path("echo", echo), path("stream", stream), path("fail", fail)]
app = ProtocolTypeRouter({"http": get_asgi_application(), "websocket": URLRouter([path("ws", Echo.as_asgi())])})
