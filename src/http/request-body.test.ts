import { expect, it } from 'vitest'
import { type BodyTurns, createBodyTurns } from './request-body.ts'

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
      timers.sort((a, b) => a.atMs - b.atMs)
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

type FakeProcess = ReturnType<typeof fakeProcess>

/** Runs the process until nothing is left to do. */
async function runAll(process: FakeProcess): Promise<void> {
  while (!process.isIdle) await process.turn()
}

/** Sends large bodies of customers, each of which takes `workMs`. Returns the customer and the time of each parsed body. */
function sendBodies(process: FakeProcess, turns: BodyTurns, customers: string, workMs: number): [string, number][] {
  const parsed: [string, number][] = []
  for (const customer of customers) {
    void turns.next(LARGE, customer).then(() => {
      parsed.push([customer, process.monotonicMs()])
      process.work(workMs)
    })
  }
  return parsed
}

it('parses large bodies one at a time, in order, and leaves a fifth of the time to other work', async () => {
  const process = fakeProcess()
  const parsed = sendBodies(process, createBodyTurns(process), 'abc', 200)
  await runAll(process)
  expect(parsed).toEqual([
    ['a', 0],
    ['b', 250],
    ['c', 500],
  ])
})

it('gives one customer a third of the time, and lets others pass', async () => {
  const process = fakeProcess()
  const turns = createBodyTurns(process)
  const parsed = sendBodies(process, turns, 'aaab', 100)
  await runAll(process)
  expect(parsed).toEqual([
    ['a', 0],
    ['b', 125],
    ['a', 300],
    ['a', 600],
  ])

  const later = sendBodies(process, turns, 'a', 100)
  await runAll(process)
  expect(later, 'a customer that has waited owes nothing').toEqual([['a', process.monotonicMs() - 300]])
})

it('counts the work of a request after its turn', async () => {
  const process = fakeProcess()
  const turns = createBodyTurns(process)
  process.work(40)
  turns.noteWork('a', 40)
  const parsed = sendBodies(process, turns, 'ab', 0)
  await runAll(process)
  expect(parsed).toEqual([
    ['b', 40],
    ['a', 120],
  ])
})

it('counts work in the turn of a body once', async () => {
  const process = fakeProcess()
  const turns = createBodyTurns(process)
  void turns.next(LARGE, 'a').then(() => {
    process.work(100)
    turns.noteWork('a', 60)
  })
  const second = turns.next(LARGE, 'a').then(process.monotonicMs)
  await runAll(process)
  expect(await second).toBe(300)
})

it('lets small bodies continue at the end of the turn, past large ones that wait', async () => {
  const process = fakeProcess()
  const turns = createBodyTurns(process)
  turns.noteWork('a', 100)
  const large = turns.next(LARGE, 'a')
  await turns.next(1_000, 'a')
  expect(process.monotonicMs()).toBe(0)
  await runAll(process)
  await large
})
