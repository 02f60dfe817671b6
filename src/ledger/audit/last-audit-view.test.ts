import { expect, test } from 'vitest'
import type { LastAudit } from './last-audit.ts'
import { createLastAuditView } from './last-audit-view.ts'

const clean = { atEpochMs: 1_795_252_195_000, elapsedMs: 40, violations: 0 }
const wrong = { atEpochMs: 1_795_252_495_000, elapsedMs: 40, violations: 3 }

test('it is read anew each time, once for all who ask at the same time', async () => {
  const results = [clean, wrong]
  const view = createLastAuditView({ read: async () => results.shift(), scheduler: { after: () => () => {} } })
  expect(await Promise.all([view(), view()])).toEqual([clean, clean])
  expect(await view()).toEqual(wrong)
})

test('without an answer it is what was known before', async () => {
  let read: () => Promise<LastAudit | undefined> = async () => wrong
  const view = createLastAuditView({
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
