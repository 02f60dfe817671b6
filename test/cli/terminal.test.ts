import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify, stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { createTestDatabase } from '../harness/database.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { startGatewayProcess } from '../nodes/gateway-process.ts'
import { databaseUrl, sourceProgram } from './run-cli.ts'
import { hasTerminals, openTerminal } from './terminal.ts'
import { useCli } from './use-cli.ts'

const run = promisify(execFile)
const database = useTestDatabase()
const cli = useCli(database)

const environment = () => ({ DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_DATA: cli.directory })

/** Runs a command on a terminal until it ends. Returns its lines, with their colours. */
async function linesOf(args: string, options: { columns: number; env?: Record<string, string> }): Promise<string[]> {
  const env = { ...environment(), ...options.env }
  const terminal = openTerminal([...sourceProgram, ...args.split(' ')], { ...options, env, cwd: cli.directory })
  await terminal.ended
  return terminal.screen().trimEnd().split('\r\n')
}

describe.skipIf(!hasTerminals)('on a terminal', () => {
  test('tables fit into its width', async () => {
    await cli.run(['customer', 'add', 'ada.lovelace@analytical-engine.example.com'])
    const widest = async (columns: number) => {
      const lines = await linesOf('customer list', { columns })
      return Math.max(...lines.map(line => stripVTControlCharacters(line).length))
    }
    expect(await widest(60)).toBeLessThanOrEqual(60)
    // Wide enough for one line.
    expect(await widest(200)).toBeGreaterThan(100)
  })

  test('what is wrong is red, unless NO_COLOR is set', async () => {
    await cli.run(['customer', 'add', 'grace@example.com'])
    await database.pool.query('UPDATE balance SET posted_nanos = posted_nanos + 1')
    try {
      const coloured = await linesOf('ledger audit', { columns: 120 })
      expect(coloured).toContainEqual(expect.stringContaining('\u001b[31mWRONG\u001b[39m  '))
      const plain = await linesOf('ledger audit', { columns: 120, env: { NO_COLOR: '1' } })
      expect(plain).toContainEqual(expect.stringMatching(/^WRONG {2}\w+ +\d/))
      expect(plain.join('\n')).not.toContain('\u001b')
    } finally {
      await database.pool.query('UPDATE balance SET posted_nanos = posted_nanos - 1')
    }
  })

  test.each(['1', '2'])('the gateway logs short lines and says how it stops; workers: %s', async workers => {
    await using undo = new AsyncDisposableStack()
    const directory = await mkdtemp(join(tmpdir(), 'switchyard-terminal-'))
    undo.defer(() => rm(directory, { recursive: true }))
    await writeFile(join(directory, 'switchyard.yaml'), 'detect: { enabled: false }\ndemo: { tokens_per_second: 1 }\n')
    const env = { ...environment(), SWITCHYARD_DATA: directory, SWITCHYARD_INIT_EMAIL: `op${workers}@example.com` }
    const command = [...sourceProgram, 'start', '--port', '0', '--workers', workers]
    const terminal = openTerminal(command, { cwd: directory, env })
    undo.defer(() => void terminal.process.kill('SIGKILL'))
    await terminal.shows('is ready:')
    const key = await cli.run(['customer', 'add', `runs${workers}@example.com`]).then(async () => {
      const { stdout } = await cli.run(['key', 'issue', `runs${workers}@example.com`, '--name', 'test'])
      return stdout.trim()
    })
    const [, url] = /is ready: (\S+)\/v1/.exec(stripVTControlCharacters(terminal.screen()))!
    // At one token per second it runs until it is cut off.
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo', stream: true, messages: [{ role: 'user', content: 'Hello!' }] }),
    })
    expect(answer.status).toBe(200)

    terminal.type('\x03')
    await terminal.shows('draining: running requests may finish; Ctrl-C or SIGTERM once more to stop now')
    // A second Ctrl-C within a second counts as the same one.
    while (terminal.process.exitCode === null) {
      terminal.type('\x03')
      await Promise.race([terminal.ended, sleep(200, undefined, { ref: false })])
    }
    expect(await terminal.ended).toBe(0)
    // The terminal shows each Ctrl-C in front of the next line.
    const lines = stripVTControlCharacters(terminal.screen()).replaceAll('^C', '').split('\r\n')
    expect(lines.filter(line => line.startsWith('{'))).toEqual([])
    expect(lines).toContainEqual(
      expect.stringMatching(/^\d\d:\d\d:\d\d WARN stopping now: running requests are cut off$/),
    )
    expect(lines.at(-2)).toMatch(/^\d\d:\d\d:\d\d stopped$/)
    await answer.text().catch(() => {})
  })
})

describe.skipIf(!hasTerminals)('init on a terminal', () => {
  const runInit = async (typed: string) => {
    await using undo = new AsyncDisposableStack()
    const unused = await createTestDatabase()
    undo.defer(() => unused.drop())
    const env = {
      ...environment(),
      DATABASE_URL: databaseUrl(unused.connection),
      SWITCHYARD_INIT_EMAIL: 'op@example.com',
    }
    const terminal = openTerminal([...sourceProgram, 'init'], { cwd: cli.directory, env })
    await terminal.shows('What is your e-mail address?')
    terminal.type(typed)
    expect(await terminal.ended, terminal.screen()).toBe(0)
    return (await unused.pool.query('SELECT email FROM customer')).rows
  }

  test('what is typed replaces the configured address', async () => {
    expect(await runInit('ada@example.com\r')).toEqual([{ email: 'ada@example.com' }])
  })

  test('Enter accepts the configured address', async () => {
    expect(await runInit('\r')).toEqual([{ email: 'op@example.com' }])
  })
})

test('the log has its format from the configuration where there is no terminal', async () => {
  await using undo = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-format-'))
  undo.defer(() => rm(directory, { recursive: true }))
  const gateway = await startGatewayProcess({
    directory,
    env: { ...environment(), SWITCHYARD_DATA: directory, LOG_FORMAT: 'text' },
  })
  undo.defer(async () => void (await gateway.stop()))
  gateway.signal('SIGTERM')
  expect(await gateway.ended).toBe(0)
  expect(gateway.log).toEqual([])
  expect(gateway.errorLines.at(-1)).toMatch(/^\d\d:\d\d:\d\d stopped$/)
})

test('the printed SDK lines run as they are', async () => {
  await using undo = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-sdk-'))
  undo.defer(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'switchyard.yaml'), 'detect: { enabled: false }\ndemo: { tokens_per_second: 1000 }\n')
  const unused = await createTestDatabase()
  undo.defer(() => unused.drop())
  const gateway = await startGatewayProcess({ directory, env: { DATABASE_URL: databaseUrl(unused.connection) } })
  undo.defer(async () => void (await gateway.stop()))
  const [, lines = ''] = /Or use the OpenAI SDK .* hello\.mjs:\n\n(.+)$/s.exec(gateway.output())!
  await writeFile(join(directory, 'hello.mjs'), lines)
  await symlink(new URL('../../node_modules', import.meta.url), join(directory, 'node_modules'))
  const { stdout } = await run(process.execPath, ['hello.mjs'], { cwd: directory })
  expect(stdout).toMatch(/^\[demo model\] /)
})
