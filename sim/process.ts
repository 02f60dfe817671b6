import type { Scheduler } from '../src/base/runtime/scheduler.ts'
import type { World } from './world.ts'

/** An operating system process: it runs, sleeps or is dead, and sees only the two clocks of its machine. */
export interface Process {
  readonly name: string
  readonly scheduler: Scheduler
  readonly isAlive: boolean
  readonly isPaused: boolean
  /** Delivers an event from outside after `delayMs`, or at wake-up while the process is paused. A dead process never receives it. */
  deliver(delayMs: number, work: () => void): void
  /** Stops the process, as SIGSTOP or the migration of a virtual machine does. Its clocks keep running. */
  pause(forMs: number): void
  /** Ends the process between two instructions. Its unfinished code keeps running, but the ports ignore a dead process. */
  kill(): void
  /** Kills the process at its `calls`-th use of a port from now. */
  killAfter(calls: number): void
  /** Counts a use of a port; returns false when the process is dead. */
  enter(what: string): boolean
  /** Runs `work` when the process dies. */
  onDeath(work: () => void): void
}

/** The clocks of a machine. */
export interface MachineClock {
  /** Wall time at the start of the run, epoch ms. */
  epochMs: number
  /** How much faster the monotonic clock runs than true time, parts per million. */
  readonly driftPpm: number
}

export function createProcess(world: World, name: string, clock: MachineClock): Process {
  const pace = 1 + clock.driftPpm / 1e6
  let isAlive = true
  let pausedUntilMs = 0
  let callsLeft = Number.POSITIVE_INFINITY
  const deaths: (() => void)[] = []
  // Events that arrived during a pause. After wake-up either timers or sockets come first, depending on where the event loop stopped.
  let missed: { timers: (() => void)[]; arrivals: (() => void)[] } | undefined

  const process: Process = {
    name,
    scheduler: {
      epochMs: () => Math.floor(clock.epochMs + world.nowMs),
      monotonicMs: () => world.nowMs * pace,
      after(ms, work) {
        if (!process.enter('after')) return () => {}
        let isWanted = true
        // Timers of a busy event loop are late, never early.
        const lateMs = world.random.next() * 1.5
        const cancel = world.at(world.nowMs + Math.max(ms, 1) / pace + lateMs, () =>
          run(() => isWanted && work(), 'timers'),
        )
        return () => {
          isWanted = false
          cancel()
        }
      },
      soon(work) {
        if (!process.enter('soon')) return
        world.at(world.nowMs + TURN_MS, () => run(work, 'timers'))
      },
    },
    get isAlive() {
      return isAlive
    },
    get isPaused() {
      return missed !== undefined
    },
    deliver(delayMs, work) {
      if (isAlive) world.at(world.nowMs + delayMs, () => run(work, 'arrivals'))
    },
    pause(forMs) {
      if (!isAlive || missed !== undefined) return
      world.note(name, 'paused for', forMs)
      missed = { timers: [], arrivals: [] }
      pausedUntilMs = world.nowMs + forMs
      world.at(pausedUntilMs, wake)
    },
    kill() {
      if (!isAlive) return
      isAlive = false
      world.note(name, 'killed')
      for (const work of deaths) work()
    },
    killAfter(calls) {
      callsLeft = calls
    },
    enter(what) {
      if (isAlive && --callsLeft <= 0) {
        world.note(name, 'dies at', what)
        process.kill()
      }
      return isAlive
    },
    onDeath: work => {
      deaths.push(work)
    },
  }
  return process

  function run(work: () => void, kind: 'timers' | 'arrivals'): void {
    if (!isAlive) return
    if (missed === undefined) work()
    else missed[kind].push(work)
  }

  function wake(): void {
    if (missed === undefined || !isAlive) return
    const { timers, arrivals } = missed
    missed = undefined
    world.note(name, 'wakes')
    const backlog = world.random.chance(0.5) ? [...timers, ...arrivals] : [...arrivals, ...timers]
    backlog.forEach((work, index) => {
      world.at(world.nowMs + index * 1e-6, () => run(work, 'arrivals'))
    })
  }
}

/** Duration of one turn of the event loop. */
const TURN_MS = 0.02
