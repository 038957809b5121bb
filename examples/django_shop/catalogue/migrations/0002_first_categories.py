"""A shop with two shelves, so that something can be sold at once."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def add(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The two shelves."""
    category = apps.get_model("catalogue", "Category")
    for name in ("Balls", "Rackets"):
        category.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    """Goes forward only in data: going back leaves the shelves."""

    dependencies = [("catalogue", "0001_initial")]
    operations = [migrations.RunPython(add, migrations.RunPython.noop)]
