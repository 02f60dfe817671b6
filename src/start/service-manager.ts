import { execFile } from 'node:child_process'
import type { Logger } from 'pino'
import type { Config } from './config/config.ts'

/** Reports to systemd, in the order of the calls. Each call returns at once; the first one that fails leaves a warning. */
export interface ServiceManager {
  /** The gateway serves, or has read its configuration again. From the first call on, systemd hears that it is alive. */
  ready(): void
  reloading(): void
  stopping(): void
}

/**
 * Returns the service manager that started this process, or one that does nothing: systemd sets NOTIFY_SOCKET for units of
 * `Type=notify`, and WATCHDOG_USEC with `WatchdogSec=`. Node has no sockets of datagrams between processes, so each message
 * goes through the program `systemd-notify`, which belongs to systemd; the unit needs `NotifyAccess=all`, because that
 * is another process.
 *
 * Source: sd_notify(3), https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
 */
export function serviceManager(systemd: Config['systemd'], log: Logger): ServiceManager {
  if (systemd === null) return { ready() {}, reloading() {}, stopping() {} }
  const { watchdogMs } = systemd
  let hasFailed = false
  let isWatched = false
  // Each message is a process of its own, so it waits for the one before: READY=1 must not overtake RELOADING=1.
  let last = Promise.resolve()
  const send = (...assignments: readonly string[]) => {
    last = last
      .then(() => notify(assignments))
      .catch(error => {
        if (hasFailed) return
        hasFailed = true
        log.warn({ err: error }, '`systemd-notify` failed, so systemd does not know the state of the gateway')
      })
  }
  return {
    ready() {
      send('READY=1')
      if (isWatched || watchdogMs === null) return
      isWatched = true
      // Half of what systemd waits for, as sd_watchdog_enabled(3) recommends.
      setInterval(() => send('WATCHDOG=1'), watchdogMs / 2).unref()
    },
    reloading() {
      send('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1_000n}`)
    },
    stopping() {
      send('STOPPING=1')
    },
  }
}

const SEND_MS_MAX = 60_000

function notify(assignments: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile('systemd-notify', assignments, { timeout: SEND_MS_MAX }, error =>
      error === null ? resolve() : reject(error),
    )
  })
}
