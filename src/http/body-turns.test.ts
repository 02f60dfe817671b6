import { expect, it } from 'vitest'
import { createBodyTurns } from './body-turns.ts'

const LARGE = 8_000_000

/** A simulated process. Its time passes only while it works or waits for a timer. */
function fakeProcess() {
  let nowMs = 0
  const soon: (() => void)[] = []
  const timers: { atMs: number; work: () => void }[] = []
  return {
    monotonicMs: () => nowMs,
    soon: (work: () => void) => void soon.push(work),
    after: (ms: number, work: () => void) => {
      timers.push({ atMs: nowMs + ms, work })
      return () => {}
    },
    work: (ms: number) => {
      nowMs += ms
    },
    /** Runs one turn of the event loop. */
    turn: async () => {
      const due = soon.length === 0 ? timers.shift() : undefined
      if (due !== undefined) {
        nowMs = due.atMs
        due.work()
      }
      for (const work of soon.splice(0)) {
        work()
        await undefined
        await undefined
      }
    },
    get isIdle() {
      return soon.length + timers.length === 0
    },
  }
}

it('parses large bodies one at a time, in order, and leaves a fifth of the time to other work', async () => {
  const process = fakeProcess()
  const turns = createBodyTurns(process)
  const started: number[] = []
  const requests = [1, 2, 3].map(async number => {
    await turns.next(LARGE)
    started.push(number, process.monotonicMs())
    process.work(200)
  })
  while (!process.isIdle) await process.turn()
  await Promise.all(requests)
  expect(started).toEqual([1, 0, 2, 250, 3, 500])

  const late = turns.next(LARGE)
  while (!process.isIdle) await process.turn()
  await late
})

it('lets small bodies continue at the end of the turn, past large ones that wait', async () => {
  const process = fakeProcess()
  const turns = createBodyTurns(process)
  const large = turns.next(LARGE)
  await turns.next(1_000)
  while (!process.isIdle) await process.turn()
  await large
})
