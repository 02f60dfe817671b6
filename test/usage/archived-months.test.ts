import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveMonth } from '../../src/money/ledger/archive/archive-month.ts'
import { createActivity } from '../../src/money/usage/activity.ts'
import { usageExport } from '../../src/money/usage/usage-export.ts'
import { useResource } from '../harness/use-resource.ts'
import { createArchiveWorld, FEBRUARY_MS } from '../ledger/archive-world.ts'

const world = useResource(createArchiveWorld, created => created.drop())
const directory = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-archive-')) }),
  ({ path }) => rm(path, { recursive: true }),
)

test('the list, the CSV and receipts say which months are archived', async () => {
  const { pool, customerId } = world
  const caller = { customerId } as Parameters<ReturnType<typeof createActivity>['list']>[0]
  const activity = createActivity({ sql: pool })
  const list = (query: { from?: string; to?: string }) => activity.list(caller, { limit: 10, ...query })
  const exported = async (days: number) => {
    const { csv, archivedBefore } = await usageExport(pool, customerId, { days }, FEBRUARY_MS)
    let lines = -1
    for await (const piece of csv) lines += piece.split('\r\n').length - 1
    return { lines, archivedBefore }
  }
  const [archived] = world.january
  expect(await list({})).toMatchObject({ data: { length: 5 }, archived_before: null })
  expect(await exported(30)).toEqual({ lines: 5, archivedBefore: null })
  await archiveMonth(pool, '2026-01', directory.path)

  const end = '2026-02-01T00:00:00.000Z'
  expect(await list({})).toMatchObject({ data: { length: 1 }, has_more: false, archived_before: end })
  expect(await list({ from: '2026-01-31T23:59:59Z' })).toMatchObject({ archived_before: end })
  expect(await list({ from: '2026-02-01' })).toMatchObject({ data: { length: 1 }, archived_before: null })
  expect(await list({ to: '2026-01-01' })).toMatchObject({ data: [], archived_before: null })
  expect(await exported(30)).toEqual({ lines: 1, archivedBefore: end })
  expect(await exported(1)).toEqual({ lines: 1, archivedBefore: null })
  await expect(activity.receipt(caller, archived!)).rejects.toMatchObject({
    code: 'request_not_found',
    message: expect.stringMatching(/archived the requests of its month/),
  })
})
