import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createRecordBatch } from '../../src/money/ledger/journal/record.ts'
import { encodeSettlement } from '../../src/money/ledger/settlement/settlement.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNode } from '../ledger/ledger-world.ts'
import { useCli } from './use-cli.ts'

const world = useLedgerWorld()
const node = useNode(world)
const cli = useCli(world)

test('inspect shows which charges were in damaged places, and whether they are settled', async () => {
  expect(await cli.run(['journal', 'inspect'])).toEqual({
    ...{ code: 0, stdout: '', stderr: '0 files with 0 readable records, no damage.\n' },
  })
  const customerId = await world.addCustomer(1_000n)
  const settlements = Array.from({ length: 4 }, () => settlementOf(admissionOf(customerId, 100n), 100n, 70n))
  const [settled, notSettled, undamaged, unreadable] = settlements as [(typeof settlements)[0], ...typeof settlements]
  await settle(node.ledger, settled)
  const batch = createRecordBatch()
  const ends = settlements.map(settlement => {
    batch.add(encodeSettlement(settlement))
    return batch.length
  })
  const bytes = Buffer.from(batch.take())
  // A bit of the latency of the first two, and of the first id of the last one.
  for (const [index, text] of [
    [0, ',120,'],
    [1, ',120,'],
    [3, unreadable!.requestId],
  ] as const)
    bytes[bytes.indexOf(text, ends[index - 1] ?? 0) + 1]! ^= 0x40
  const directory = join(cli.directory, 'journal', '1')
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, '00000004.log'), bytes.subarray(ends[1]!, ends[2]!))
  expect((await cli.run(['journal', 'inspect'])).stderr).toBe('1 file with 1 readable record, no damage.\n')
  writeFileSync(join(directory, '00000003.damaged'), bytes)
  writeFileSync(join(directory, '00000004.log'), bytes.subarray(ends[1]!, ends[2]! + 9))

  const { code, stdout } = await cli.run(['journal', 'inspect', '--json'])
  expect(code).toBe(0)
  const found = JSON.parse(stdout)
  const file = join(directory, '00000003.damaged')
  expect(found.files).toEqual([
    { file, in_use: false, records: 1, torn_bytes: 0, damaged_places: 2 },
    { file: join(directory, '00000004.log'), in_use: true, records: 1, torn_bytes: 9, damaged_places: 0 },
  ])
  const readable = {
    file,
    offset: 0,
    bytes: ends[1],
    customer_id: customerId,
    cost_usd: '0.00000007',
    started_at: '2026-11-21T10:30:00.000Z',
  }
  expect(found.damaged).toEqual([
    { ...readable, request_id: settled.requestId, settled: true },
    { ...readable, request_id: notSettled!.requestId, settled: false },
    { ...readable, offset: ends[2], bytes: ends[3]! - ends[2]!, request_id: null, settled: null },
  ])
  const shown = await cli.run(['journal', 'inspect'])
  expect(shown.stdout).toMatch(
    new RegExp(`^journal/1/00000003.damaged +0 +${ends[1]} +${settled.requestId} .* yes$`, 'm'),
  )
  expect(shown.stdout).not.toContain(undamaged!.requestId)
  expect(shown.stderr).toMatch(/^2 files with 2 readable records\. The values above .* may be wrong\./)
  expect(readFileSync(file)).toEqual(bytes)
})

test('inspect works without a database', async () => {
  const env = { DATABASE_URL: 'postgres://me:secret@127.0.0.1:1/none' }
  const { code, stdout, stderr } = await cli.run(['journal', 'inspect', '--json'], { env })
  expect(code).toBe(0)
  expect(JSON.parse(stdout).damaged.map(({ settled }: { settled: boolean | null }) => settled)).toEqual([
    null,
    null,
    null,
  ])
  expect(stderr).toContain('Whether these requests are settled is unknown: PostgreSQL is not listening')
})

// Went wrong: after the crash that damaged the journal, the free row of the reaper counted as the charge.
test('a free row that only presumes the end of a request is no charge, and an archived month is not known', async () => {
  const customerId = await world.addCustomer(1_000n)
  const directory = join(cli.directory, 'journal', '2')
  mkdirSync(directory, { recursive: true })
  const inspected = async (settlement: ReturnType<typeof settlementOf>) => {
    const batch = createRecordBatch()
    batch.add(encodeSettlement(settlement))
    const bytes = Buffer.from(batch.take())
    bytes[bytes.indexOf(',120,') + 1]! ^= 0x40
    writeFileSync(join(directory, '00000001.damaged'), bytes)
    const { damaged } = JSON.parse((await cli.run(['journal', 'inspect', '--json'])).stdout)
    return damaged.find((row: { request_id: string }) => row.request_id === settlement.requestId).settled
  }
  const settlement = settlementOf(admissionOf(customerId, 100n), 100n, 70n)
  await settle(node.ledger, settlement)
  expect(await inspected(settlement)).toBe(true)
  await world.pool.query("UPDATE usage_event SET outcome = 'node_died' WHERE request_id = $1", [settlement.requestId])
  expect(await inspected(settlement)).toBe(false)
  const gone = settlementOf(admissionOf(customerId, 100n), 100n, 70n)
  expect(await inspected(gone)).toBe(false)
  await world.pool.query(
    `INSERT INTO usage_archive (month, from_id, to_id)
     SELECT '2020-01-01', $1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'`,
    [gone.requestId],
  )
  expect(await inspected(gone)).toBeNull()
})
