"""Says which process has answered. Its second worker dies when it has told its process's number, and nothing else.

Run as a program, it is the command, whose supervisor looks who has ended only then: as one does that is busy meanwhile.
"""

import os
import signal

from own_pid import application

__all__ = ["application"]
SECOND = 2


def main():
    from forehand import cli, ending
    from forehand.launch import launch
    from forehand.supervisor import run

    reap = run.Loop._reap

    def reap_late(self):
        second = self.children.all.get(SECOND)
        if second is not None and not second.pid:
            # Nobody else ends meanwhile.
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        reap(self)

    def go_on(plan):
        ending.process_ends = True
        raise SystemExit(launch(plan))

    run.Loop._reap = reap_late
    cli._reexec = go_on
    raise SystemExit(cli.main())


if __name__ == "__main__":
    main()
else:
    from forehand.supervisor import worker

    begin = worker.run

    def die(inherited, *rest):
        if inherited.number == SECOND:
            os.kill(os.getpid(), signal.SIGKILL)
        return begin(inherited, *rest)

    worker.run = die
