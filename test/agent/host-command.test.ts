import { chmod, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { bumpControlVersion } from '../../src/base/db/control-version.ts'
import { transaction } from '../../src/base/db/pool.ts'
import { runCli } from '../cli/run-cli.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { type AgentHoster, addAgentHoster, idleConnections, startAgent } from './agent-world.ts'

const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] }

describe('switchyard host', () => {
  const upstream = useUpstream()
  const app = useTestApp()
  const hoster: AgentHoster = useResource(
    () => addAgentHoster(app),
    () => {},
  )
  const keyFile = async (mode: number) => {
    const file = join(tmpdir(), `switchyard-host-key-${process.pid}-${mode}`)
    await writeFile(file, `${hoster.key}\n`)
    await chmod(file, mode)
    return file
  }
  const host = (args: readonly string[], env: Record<string, string> = {}) =>
    runCli(['host', ...args], { cwd: tmpdir(), env })

  it('--doctor checks the server, the models, the speed, the gateway, the key, the clock and the prices', async () => {
    const file = await keyFile(0o600)
    const args = ['--gateway', app.url, '--upstream', upstream.baseUrl, '--key-file', file, '--doctor', '--json']
    const { code, stdout } = await host(args)
    const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: { check: string; ok: boolean }[] }
    expect(checks.map(({ check }) => check)).toEqual([
      'model server',
      'models',
      'context',
      'speed',
      'gateway',
      'key',
      'clock',
      'price',
    ])
    expect([code, ok]).toEqual([0, true])
    await idleConnections(app, 0, 0)
    await rm(file)
  })

  it('--doctor passes while only the approval is missing, and says so', async () => {
    const waiting = await addAgentHoster(app)
    await transaction(app.database.pool, async sql => {
      await sql.query("UPDATE hoster SET state = 'verified' WHERE hoster_id = $1", [waiting.hosterId])
      await bumpControlVersion(sql, 'supply')
    })
    await app.app.noticeChanges()
    const args = ['--gateway', app.url, '--upstream', upstream.baseUrl, '--doctor']
    const { code, stdout } = await host(args, { SWITCHYARD_HOST_KEY: waiting.key })
    expect(stdout).toMatch(/waits +price +test-model gets no requests: .*verified, and the operator approves it next/)
    expect(code).toBe(0)
  })

  it('--doctor says what is missing', async () => {
    const args = ['--gateway', app.url, '--upstream', 'http://127.0.0.1:1/v1', '--doctor']
    const unknown = `hk-sy-${'0'.repeat(38)}`
    const { code, stdout, stderr } = await host(args, { SWITCHYARD_HOST_KEY: unknown })
    expect(stdout).toMatch(/FAILED +model server +The model server at .* does not answer .*--upstream/)
    expect(stdout).toMatch(/FAILED +key +The hoster key is missing, unknown/)
    expect(stderr).toContain('2 of 3 checks failed.')
    expect(code).toBe(1)
    expect(stdout + stderr).not.toContain(unknown)
  })

  it('refuses wrong usage before it connects', async () => {
    const readable = await keyFile(0o644)
    const table = [
      [['--gateway', app.url, '--key-file', readable], 'chmod 600'],
      [['--gateway', app.url], '--key-file'],
      [['--gateway', 'http://gateway.example.com', '--key', hoster.key], '--insecure'],
      [['--gateway', app.url, '--key', 'sk-sy-x'], 'begins with hk-sy-'],
      [['--gateway', `${app.url}/v1`, '--key', hoster.key], 'without a path'],
      [['--gateway', app.url, '--key', hoster.key, '--hours', '7-9'], '22:00-07:00'],
      [['--gateway', app.url, '--key', hoster.key, '--slots', '0'], 'from 1 to 1024'],
    ] as const
    for (const [args, text] of table) {
      const { code, stderr } = await host(args)
      expect([code, stderr.includes(text)], `${args.join(' ')}: ${stderr}`).toEqual([2, true])
      expect(stderr).not.toContain(hoster.key)
    }
    await rm(readable)
  })

  it('exits with 1 when the gateway refuses the key', async () => {
    const args = ['--gateway', app.url, '--upstream', upstream.baseUrl]
    const { code, stderr } = await host(args, { SWITCHYARD_HOST_KEY: `hk-sy-${'0'.repeat(38)}` })
    expect([code, stderr.includes('refuses this agent')]).toEqual([1, true])
  })
})

describe('limits of an agent', () => {
  const upstream = useUpstream()
  const app = useTestApp()
  const hoster: AgentHoster = useResource(
    () => addAgentHoster(app, [{}, { modelId: 'unannounced' }]),
    () => {},
  )

  it.each([
    ['a pause command', { pauseCommand: 'exit 3' }, 'pause command'],
    ['the power of a GPU that nobody can read', { powerLimitWatts: 100 }, 'nvidia-smi'],
    ['models that the server does not have', { models: ['other'] }, 'none of the models'],
  ])('%s pauses', async (_what, options, text) => {
    const agent = startAgent(hoster.key, app.url, { upstream, ...options })
    await agent.saw('state', ({ state, reason }) => state === 'paused' && reason!.includes(text))
    agent.stop()
    await idleConnections(app, 0, 0)
  })

  it('the tokens of a minute pause after the request that used them up', async () => {
    const customer = await app.customer()
    const agent = startAgent(hoster.key, app.url, { upstream, tokensPerMinute: 50 })
    await idleConnections(app, 4)
    upstream.respondWith(answer({ usage: { prompt_tokens: 40, completion_tokens: 20, total_tokens: 60 } }))
    expect((await app.chat(customer, body)).status).toBe(200)
    await agent.saw('state', ({ reason }) => reason?.includes('tokens') ?? false)
    expect((await app.chat(customer, body)).status).toBe(500)
    agent.stop()
    await idleConnections(app, 0, 0)
  })

  it('a model with a price that no agent announced gets no request', async () => {
    const customer = await app.customer()
    const agent = startAgent(hoster.key, app.url, { upstream })
    await idleConnections(app, 4)
    const before = upstream.requests.length
    const response = await app.chat(customer, { ...body, model: 'unannounced' })
    expect([response.status, upstream.requests.length]).toEqual([500, before])
    agent.stop()
    await idleConnections(app, 0, 0)
  })

  it('an agent that has connected has passed the challenge of its endpoint', async () => {
    const { rows } = await app.database.pool.query(
      'SELECT challenge_passed_at IS NOT NULL AS passed FROM hoster_endpoint WHERE endpoint_id = $1',
      [hoster.endpointId],
    )
    expect(rows).toEqual([{ passed: true }])
  })
})
