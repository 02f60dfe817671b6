import { expect, test } from 'vitest'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { progressInFile } from '../../src/money/ledger/audit/audit-progress.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNode } from '../ledger/ledger-world.ts'
import { useCli } from './use-cli.ts'

const world = useLedgerWorld()
const node = useNode(world)
const cli = useCli(world)

test('an interrupted audit is continued by the next one, and --restart begins at the first slice', async () => {
  const admission = admissionOf(await world.addCustomer(1_000n), 200n)
  await node.ledger.admit(admission)
  await settle(node.ledger, settlementOf(admission, 200n, 100n))
  const interrupt = async () => {
    const stopping = new AbortController()
    const store = progressInFile(world.pool, `${cli.directory}/audit.json`)
    const progress = {
      load: store.load,
      save: async (state: Parameters<typeof store.save>[0]) => {
        await store.save(state)
        stopping.abort()
      },
    }
    await expect(audit(world.pool, { progress, signal: stopping.signal, saveEveryMs: 0 })).rejects.toThrow()
  }
  const continuing =
    /Continuing the audit of \d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC, which was interrupted after 1 of \d slices/
  await interrupt()
  const continued = await cli.run(['ledger', 'audit'])
  expect(continued).toMatchObject({ code: 0, stderr: expect.stringMatching(continuing) })
  expect(continued.stderr).toMatch(/All \d+ checks passed/)
  expect((await cli.run(['ledger', 'audit'])).stderr).not.toMatch(/Continuing/)
  await interrupt()
  expect((await cli.run(['ledger', 'audit', '--restart'])).stderr).not.toMatch(/Continuing/)
})
