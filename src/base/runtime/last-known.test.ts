import { expect, test } from 'vitest'
import { createLastKnown } from './last-known.ts'

const clean = { atEpochMs: 1_795_252_195_000, elapsedMs: 40, violations: 0 }
const wrong = { atEpochMs: 1_795_252_495_000, elapsedMs: 40, violations: 3 }

test('reads each time, and once for concurrent calls', async () => {
  const results = [clean, wrong]
  const view = createLastKnown({ read: async () => results.shift(), scheduler: { after: () => () => {} } })
  expect(await Promise.all([view(), view()])).toEqual([clean, clean])
  expect(await view()).toEqual(wrong)
})

test('returns the last known result when the database does not answer', async () => {
  let read: () => Promise<typeof wrong | undefined> = async () => wrong
  const view = createLastKnown({
    read: () => read(),
    scheduler: {
      after(_, work) {
        queueMicrotask(work)
        return () => {}
      },
    },
  })
  await Promise.all([view(), view()])
  read = () => Promise.reject(new Error('no database'))
  expect(await view()).toEqual(wrong)
  read = () => new Promise(() => {})
  expect(await view()).toEqual(wrong)
})
