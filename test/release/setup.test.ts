import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { userPath } from './install-package.ts'

// bin/switchyard, scripts/setup.mjs and npm in a small clone. The test serves its one package, and holds the download up.

const root = fileURLToPath(new URL('../../', import.meta.url))
let directory: string
let clone: string
let registry: Server
let isHeld = false

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'switchyard-setup-'))
  clone = join(directory, 'clone')
  for (const path of ['bin/switchyard', 'scripts/setup.mjs']) {
    mkdirSync(dirname(join(clone, path)), { recursive: true })
    copyFileSync(join(root, path), join(clone, path))
  }
  write('clone/src/cli.js', 'console.log("started")')
  // It stands for the package of the pinned Node.
  const packageJson = {
    name: 'node-small',
    version: '1.0.0',
    bin: { node: 'bin/node' },
    scripts: { install: 'echo > ran' },
  }
  write('node-small/package.json', JSON.stringify(packageJson))
  write('node-small/bin/node', `#!/bin/sh\nexec ${process.execPath} "$@"\n`)
  chmodSync(join(directory, 'node-small/bin/node'), 0o755)
  await npm(['pack', join(directory, 'node-small'), '--pack-destination', directory])
  registry = createServer((_, response) => {
    if (!isHeld) sendPackage(response)
  })
  await once(registry.listen(0, '127.0.0.1'), 'listening')
  const { port } = registry.address() as AddressInfo
  const clonePackage = {
    name: 'clone',
    version: '1.0.0',
    type: 'module',
    scripts: { start: 'exec bin/switchyard start' },
    dependencies: { 'node-small': `http://127.0.0.1:${port}/node-small-1.0.0.tgz` },
  }
  write('clone/package.json', JSON.stringify(clonePackage))
  await npm(['install', '--package-lock-only', '--no-audit'], clone)
  removeModules()
})

afterAll(() => {
  // A download that a failed test left behind ends with its connection.
  registry.closeAllConnections()
  registry.close()
  rmSync(directory, { recursive: true })
})

test('runs no install script of a package', async () => {
  const first = start('start')
  ;(await nextDownload()).finish()
  expect(await first.code, await first.stderr).toBe(0)
  expect(existsSync(join(clone, 'node_modules/node-small/bin/node'))).toBe(true)
  expect(existsSync(join(clone, 'node_modules/node-small/ran'))).toBe(false)
  removeModules()
})

test.each(['start', 'npm start'])(
  'Ctrl-C during the first installation of %s ends it, and the next start repeats it',
  async command => {
    const first = start(command)
    const download = await nextDownload()
    // The terminal sends the signal to every process of its foreground group.
    process.kill(-first.child.pid!, 'SIGINT')
    expect(await first.code).not.toBe(0)
    expect(await first.stderr).toContain('switchyard: the installation was stopped; the next start repeats it\n')
    // Its end closes the connection: no part of the installation goes on.
    await download.ended

    await expectInstallation(command)
  },
)

test('SIGTERM to the launcher ends the installation too', async () => {
  const first = start('start')
  const download = await nextDownload()
  first.child.kill('SIGTERM')
  expect(await first.code).toBe(143)
  await download.ended
  await expectInstallation('start')
})

// A handler would replace the decision of nohup: the installation would end with its terminal (issue 35).
test('SIGHUP ends the installation, but not under nohup', async () => {
  const first = start('start')
  const stopped = await nextDownload()
  process.kill(-first.child.pid!, 'SIGHUP')
  expect(await first.code).not.toBe(0)
  await stopped.ended

  const second = start('nohup')
  const download = await nextDownload()
  process.kill(-second.child.pid!, 'SIGHUP')
  download.finish()
  expect(await second.code, await second.stderr).toBe(0)
  expect(await second.stdout).toBe('started\n')
  removeModules()
})

test('a start waits for an installation with a killed parent', async () => {
  const first = start('start')
  const download = await nextDownload()
  // Not npm, which runs in a group of its own.
  process.kill(-first.child.pid!, 'SIGKILL')
  await first.code

  const second = start('start')
  const [line] = await once(createInterface({ input: second.child.stderr! }), 'line')
  expect(line).toMatch(/^switchyard: waiting for process \d+, which is installing$/)
  download.finish()
  expect(await second.code).toBe(0)
  expect(await second.stdout).toBe('started\n')
  removeModules()
})

/** Starts, lets the installation finish, and starts again without one. */
async function expectInstallation(command: string): Promise<void> {
  const second = start(command)
  const download = await nextDownload()
  download.finish()
  expect(await second.code, await second.stderr).toBe(0)
  expect(await second.stdout).toMatch(/^started\n/m)
  const third = start('start')
  expect(await third.code).toBe(0)
  expect(await third.stderr).toBe('')
  removeModules()
}

/** Removes what was installed and downloaded. The next installation waits for `nextDownload`. */
function removeModules(): void {
  for (const path of [join(clone, 'node_modules'), join(directory, 'cache')])
    rmSync(path, { recursive: true, force: true })
  isHeld = true
}

interface Download {
  /** Lets the installation go on. */
  finish(): void
  readonly ended: Promise<unknown>
}

/** Resolves once an installation downloads the package. */
async function nextDownload(): Promise<Download> {
  const [, response] = (await once(registry, 'request')) as [unknown, ServerResponse]
  const ended = once(response, 'close')
  return {
    finish() {
      isHeld = false
      sendPackage(response)
    },
    ended,
  }
}

function sendPackage(response: ServerResponse): void {
  response.end(readFileSync(join(directory, 'node-small-1.0.0.tgz')))
}

function start(command: string): {
  child: ChildProcess
  code: Promise<number | null>
  stdout: Promise<string>
  stderr: Promise<string>
} {
  const launcher = join(clone, 'bin/switchyard')
  const [program, ...args] = { start: [launcher, 'start'], nohup: ['nohup', launcher, 'start'] }[command] ?? [
    'npm',
    'start',
    '--silent',
  ]
  // A group of its own, as a shell gives to each command.
  const child = spawn(program!, args, {
    cwd: clone,
    detached: true,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const code = once(child, 'exit').then(([status]) => status as number | null)
  return { child, code, stdout: text(child.stdout), stderr: text(child.stderr) }
}

async function npm(args: string[], cwd = directory): Promise<void> {
  await promisify(execFile)('npm', args, { cwd, env: environment() })
}

function environment(): NodeJS.ProcessEnv {
  return { PATH: userPath, HOME: directory, TMPDIR: directory, npm_config_cache: join(directory, 'cache') }
}

function write(path: string, content: string): void {
  mkdirSync(dirname(join(directory, path)), { recursive: true })
  writeFileSync(join(directory, path), content)
}

test('programs that run after the set-up start with the node that it installed', () => {
  // A shell looks up `node` once, and the set-up may install another one. `hash -r` makes it look again.
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const after = Object.values(scripts).filter(script => /setup\.mjs.*&&/.test(script))
  expect(after.length).toBeGreaterThan(10)
  for (const script of after) expect(script).toMatch(/ && hash -r && (?:node|sh) |&& vitest /)
})
