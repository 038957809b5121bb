#!/bin/sh
set -e
python manage.py migrate --noinput
export GUNICORN_CMD_ARGS="--bind=0.0.0.0:8000 -w 4"
exec gunicorn shop.wsgi
