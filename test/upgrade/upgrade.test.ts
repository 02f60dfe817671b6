import { expect, test } from 'vitest'
import { useResource } from '../harness/use-resource.ts'
import {
  Browser,
  chatStatus,
  MODEL_KEY,
  type ModelServer,
  marketOptions,
  runProgram,
  startModelServer,
  startProgram,
} from './fixture-gateway.ts'
import { marketCommands, observe, steady } from './observe.ts'
import { restoreFixture } from './restore-fixture.ts'

/** Each starts a dozen processes, on a machine that may be busy. */
const PROCESSES_MS = 300_000

const models: ModelServer = useResource(startModelServer, server => server.close())

test('a database, a journal and an archive of 2026-11-26 keep every balance, report and receipt, and go on', {
  timeout: PROCESSES_MS,
}, async () => {
  const fixture = await restoreFixture('2026-11-26', models, marketOptions)
  try {
    const { program, expected, pool } = fixture
    const { keys, period } = expected
    const command = async (args: readonly string[]) => JSON.parse(await runProgram(program, [...args, '--json']))
    // The killed node had charges in its journal only, and leases for running requests.
    const before = await pool.query(
      'SELECT (SELECT count(*) FROM lease)::int AS leases, (SELECT count(*) FROM usage_event)::int AS requests',
    )
    expect(before.rows).toEqual([{ leases: expect.any(Number), requests: expect.any(Number) }])
    expect((before.rows[0] as { leases: number }).leases).toBeGreaterThan(1)

    const first = await startProgram(program)
    const observed = await observe({ url: first.url, keys, command, sql: pool }, period, marketCommands)
    await first.stop()
    // A later version may say more, but nothing else.
    expect(observed).toMatchObject(steady(expected.observed))
    const after = await pool.query<{ requests: number }>('SELECT count(*)::int AS requests FROM usage_event')
    expect(after.rows[0]!.requests).toBe((before.rows[0] as { requests: number }).requests + 5 + 1)

    // The key of the hoster's server is sealed with the master key.
    await pool.query('UPDATE hoster_endpoint SET base_url = $1', [models.baseUrl])
    const gateway = await startProgram(program)
    try {
      for (const key of Object.values(keys)) {
        expect(await chatStatus(gateway.url, key, 'tram')).toBe(200)
        expect(await chatStatus(gateway.url, key, 'barge')).toBe(200)
      }
      expect(new Set(models.authorizations)).toContain(`Bearer ${MODEL_KEY}`)
      for (const email of expected.people) {
        const person = new Browser(gateway.url)
        await person.post('sign-in', { email, password: expected.password })
        if (email.startsWith('ada'))
          await person.post(`customers/${expected.adaCustomerId}/vouchers/redeem`, { code: expected.voucherCode })
      }
      const hoster = await fetch(`${gateway.url}/v1/hoster`, {
        headers: { authorization: `Bearer ${expected.hosterKey}` },
      })
      expect(await hoster.json()).toMatchObject({ name: 'acme', state: 'active' })
    } finally {
      await gateway.stop()
    }
    expect(await command(['ledger', 'audit'])).toMatchObject({ ok: true })
  } finally {
    await fixture.drop()
  }
})
