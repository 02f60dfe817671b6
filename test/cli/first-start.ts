import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type GatewayProcess, startGatewayProcess } from '../nodes/gateway-process.ts'
import { runCli } from './run-cli.ts'

export interface Installation {
  /** The command line that runs `switchyard`; by default the sources under this Node. */
  readonly program?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Defines the tests of a first start, which hold however Switchyard is installed. `installation` is called by each test. */
export function testFirstStart(installation: () => Installation): void {
  describe('first start', () => {
    test('init works in an empty directory and prints its secret once', async () => {
      await using empty = await emptyDirectory()
      const run = () => runCli(['init', '--email', 'ada@example.com', '--json'], { ...installation(), cwd: empty.path })
      const first = await run()
      expect(first.code, first.stderr).toBe(0)
      expect(JSON.parse(first.stdout)).toMatchObject({ created: true, email: 'ada@example.com', balance_usd: '5.00' })
      const second = await run()
      expect(second).toMatchObject({ code: 0, stdout: '{"created":false}\n' })
      expect(second.stderr).not.toContain('sk-sy-')
    })

    test('start works in an empty directory, prints a key that works, and stops at SIGTERM', async () => {
      await using empty = await emptyDirectory()
      await using undo = new AsyncDisposableStack()
      const start = async () => {
        const gateway = await startGatewayProcess({ ...installation(), directory: empty.path })
        undo.defer(async () => void (await gateway.stop()))
        return gateway
      }

      const first = await start()
      const [key = ''] = /sk-sy-\w+/.exec(first.output()) ?? []
      expect(await askDemo(first, key)).toMatchObject({
        choices: [{ message: { content: expect.stringMatching(/^\[demo model\] /) } }],
        usage: { cost_usd: expect.any(Number) },
      })
      first.signal('SIGTERM')
      expect(await first.ended).toBe(0)

      const second = await start()
      expect(second.output()).not.toContain('sk-sy-')
      expect(await askDemo(second, key)).toMatchObject({ model: 'demo' })
      expect(await readdir(empty.path)).toEqual(['data'])
      second.signal('SIGTERM')
      expect(await second.ended).toBe(0)
    })
  })
}

async function askDemo({ url }: GatewayProcess, key: string): Promise<unknown> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  return response.json()
}

async function emptyDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'switchyard-first-start-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}
