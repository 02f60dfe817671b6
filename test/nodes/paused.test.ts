import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { databaseUrl, runCli } from '../cli/run-cli.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from './gateway-process.ts'

const upstream = useUpstream()
const database = useTestDatabase()

test('the books show both answers when a paused node finishes a request that was sent again to another node', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-paused-'))
  await writeFile(
    join(directory, 'switchyard.yaml'),
    `demo: { enabled: false }
detect: { enabled: false, cloud: false }
endpoints:
  - name: scripted
    kind: local
    base_url: ${upstream.baseUrl}
    models: [{ id: test-model, price_per_million_usd: { input: 1, output: 2 } }]
`,
  )
  const env = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_MASTER_KEY: '5'.repeat(64) }
  const nodes: GatewayProcess[] = []
  try {
    for (const node of [1, 2])
      nodes.push(await startGatewayProcess({ directory, env: { ...env, SWITCHYARD_DATA: `data-${node}` } }))
    const [paused, other] = nodes as [GatewayProcess, GatewayProcess]
    const issued = await runCli(['key', 'issue', 'you@localhost', '--name', 'test', '--json'], { cwd: directory, env })
    const { key } = JSON.parse(issued.stdout) as { key: string }
    const idempotencyKey = randomUUID()
    const chat = (node: GatewayProcess) =>
      fetch(`${node.url}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'idempotency-key': idempotencyKey,
        },
        body: JSON.stringify({ model: 'test-model', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] }),
      })

    const gate = Promise.withResolvers<void>()
    upstream.respondWith(async (request, response) => {
      await gate.promise
      await answer()(request, response)
    }, answer())
    const first = chat(paused)
    await upstream.next()
    paused.signal('SIGSTOP')
    // The key is free 15 s after the last heartbeat of the paused node.
    const second = await eventually(async () => {
      const response = await chat(other)
      if (response.status === 200) return response
      await response.text()
      return undefined
    }, 100_000)
    gate.resolve()
    paused.signal('SIGCONT')
    const answers = [await (await first).json(), await second.json()] as { usage: { cost_usd: number } }[]
    const [costUsd] = answers.map(({ usage }) => usage.cost_usd)
    expect(answers).toMatchObject(answers.map(() => ({ usage: { cost_usd: costUsd } })))
    expect(costUsd).toBeGreaterThan(0)

    const nanos = BigInt(Math.round(costUsd! * 1e9))
    const rows = await eventually(async () => {
      const { rows } = await database.pool.query<{ cost: bigint; writeoff: bigint }>(
        `SELECT cost_nanos AS cost, writeoff_nanos AS writeoff FROM usage_event WHERE outcome = 'served' ORDER BY cost_nanos`,
      )
      return rows.length === 2 ? rows : undefined
    })
    expect(rows).toEqual([
      { cost: 0n, writeoff: nanos },
      { cost: nanos, writeoff: 0n },
    ])
  } finally {
    for (const node of nodes) {
      node.signal('SIGCONT')
      await node.stop()
    }
    await rm(directory, { recursive: true })
  }
})
