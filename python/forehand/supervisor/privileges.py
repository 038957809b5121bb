"""User, group and file-mode mask.

Knows: names and numbers of users. Does not know: what runs under them. The supervisor stays
what it is, so that it can bind again after an upgrade; each worker drops before it imports.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.digits import is_whole
from forehand.errors import Problem


def resolve(user: str, group: str, option: str = "") -> tuple[int, int, str]:
    """(user id, group id, user's name) to drop to; -1 stands for no change. `option`: how those begin that name them,
    where they are not `--user` and `--group`. Raises Problem."""
    import grp
    import pwd

    uid, gid, name = -1, -1, ""
    if user:
        try:
            entry = pwd.getpwuid(int(user)) if is_whole(user) else pwd.getpwnam(user)
            uid, gid, name = entry.pw_uid, entry.pw_gid, entry.pw_name
        except KeyError:
            if not is_whole(user):
                raise Problem(errors.USAGE, f"--{option}user: there is no user '{user}'") from None
            uid = int(user)
    if group:
        try:
            gid = int(group) if is_whole(group) else grp.getgrnam(group).gr_gid
        except KeyError:
            raise Problem(errors.USAGE, f"--{option}group: there is no group '{group}'") from None
    return uid, gid, name


def drop(user: str, group: str) -> None:
    """Become that user, with the supplementary groups that it has. Raises Problem."""
    if not user and not group:
        return
    uid, gid, name = resolve(user, group)
    try:
        # Groups first: without privileges they could not be changed any more.
        if name:
            os.initgroups(name, gid)
        elif os.geteuid() == 0:
            os.setgroups([gid] if gid >= 0 else [])
        if gid >= 0:
            os.setgid(gid)
        if uid >= 0:
            os.setuid(uid)
    except PermissionError:
        if os.geteuid() == uid and (gid < 0 or os.getegid() == gid):
            return  # it is that user already
        raise Problem(
            errors.PERMISSION,
            f"cannot become user '{user or os.getuid()}', group '{group or 'unchanged'}': only root may",
            hint="start as root, or leave --user and --group out",
        ) from None
    check(user or group)


def check(who: str) -> None:
    """Can whom we have become run Python at all? Raises Problem."""
    if not os.access(os.__file__, os.R_OK):
        raise Problem(
            errors.PERMISSION,
            f"the user {who} cannot read Python's own library, {os.path.dirname(os.__file__)}",
            hint="use an interpreter that is installed for all users",
        )


def give(path: str, user: str, group: str) -> None:
    """Hand a file or socket to that user, so that its workers can open it again."""
    if os.geteuid() == 0 and (user or group):
        uid, gid, _ = resolve(user, group)
        os.chown(path, uid, gid)
