import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { userPath } from './install-package.ts'

// bin/switchyard, scripts/setup.mjs and npm in a small clone. Its one package is on disk, so that npm needs no network.

const root = fileURLToPath(new URL('../../', import.meta.url))
let directory: string
let clone: string
let installScripts: Server
const connected = new Set<Socket>()

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'switchyard-setup-'))
  clone = join(directory, 'clone')
  for (const path of ['bin/switchyard', 'scripts/setup.mjs']) {
    mkdirSync(dirname(join(clone, path)), { recursive: true })
    copyFileSync(join(root, path), join(clone, path))
  }
  write('clone/src/cli.js', 'console.log("started")')
  // It stands for the package of the pinned Node. Its install script reports to the test and waits for the answer.
  const packageJson = {
    name: 'node-small',
    version: '1.0.0',
    bin: { node: 'bin/node' },
    scripts: { install: 'node wait.cjs' },
  }
  write('node-small/package.json', JSON.stringify(packageJson))
  write('node-small/bin/node', `#!/bin/sh\nexec ${process.execPath} "$@"\n`)
  execFileSync('chmod', ['+x', join(directory, 'node-small/bin/node')])
  const socket = join(directory, 'socket')
  write(
    'node-small/wait.cjs',
    `const socket = require('node:net').connect(${JSON.stringify(socket)})
     socket.write(process.pid + '\\n')
     socket.once('data', () => process.exit())`,
  )
  npm(['pack', join(directory, 'node-small'), '--pack-destination', directory])
  const clonePackage = {
    name: 'clone',
    version: '1.0.0',
    type: 'module',
    scripts: { start: 'exec bin/switchyard start' },
    dependencies: { 'node-small': 'file:../node-small-1.0.0.tgz' },
    allowScripts: { 'node-small': true },
  }
  write('clone/package.json', JSON.stringify(clonePackage))
  npm(['install', '--package-lock-only', '--offline'], clone)
  installScripts = createServer(socket => connected.add(socket))
  await once(installScripts.listen(socket), 'listening')
})

afterAll(() => {
  // An install script that a failed test left behind ends with its connection.
  for (const socket of connected) socket.destroy()
  installScripts.close()
  rmSync(directory, { recursive: true })
})

test.each(['start', 'npm start'])(
  'Ctrl-C during the first installation of %s ends it, and the next start repeats it',
  async command => {
    const first = start(command)
    const script = await nextInstallScript()
    // The terminal sends the signal to every process of its foreground group.
    process.kill(-first.child.pid!, 'SIGINT')
    expect(await first.code).not.toBe(0)
    expect(await first.stderr).toContain('switchyard: the installation was stopped; the next start repeats it\n')
    // Its end closes the connection: no part of the installation goes on.
    await script.ended

    await expectInstallation(command)
  },
)

test('SIGTERM to the launcher ends the installation too', async () => {
  const first = start('start')
  const script = await nextInstallScript()
  first.child.kill('SIGTERM')
  expect(await first.code).toBe(143)
  await script.ended
  await expectInstallation('start')
})

test('a start waits for an installation with a killed parent', async () => {
  const first = start('start')
  const script = await nextInstallScript()
  // Not npm, which runs in a group of its own.
  process.kill(-first.child.pid!, 'SIGKILL')
  await first.code

  const second = start('start')
  const [line] = await once(createInterface({ input: second.child.stderr! }), 'line')
  expect(line).toMatch(/^switchyard: waiting for process \d+, which is installing$/)
  script.finish()
  expect(await second.code).toBe(0)
  expect(await second.stdout).toBe('started\n')
  removeModules()
})

/** Starts, lets the installation finish, and starts again without one. */
async function expectInstallation(command: string): Promise<void> {
  const second = start(command)
  const script = await nextInstallScript()
  script.finish()
  expect(await second.code, await second.stderr).toBe(0)
  expect(await second.stdout).toMatch(/^started\n/m)
  const third = start('start')
  expect(await third.code).toBe(0)
  expect(await third.stderr).toBe('')
  removeModules()
}

function removeModules(): void {
  rmSync(join(clone, 'node_modules'), { recursive: true })
}

interface InstallScript {
  /** Lets the script end with success. */
  finish(): void
  readonly ended: Promise<unknown>
}

/** Resolves once an installation runs the install script of the package. */
async function nextInstallScript(): Promise<InstallScript> {
  const [socket] = (await once(installScripts, 'connection')) as [Socket]
  socket.on('error', () => {})
  const ended = once(socket.resume(), 'close')
  return { finish: () => socket.write('end'), ended }
}

function start(command: string): {
  child: ChildProcess
  code: Promise<number | null>
  stdout: Promise<string>
  stderr: Promise<string>
} {
  const [program, args] =
    command === 'start' ? [join(clone, 'bin/switchyard'), ['start']] : ['npm', ['start', '--silent']]
  // A group of its own, as a shell gives to each command.
  const child = spawn(program, args, {
    cwd: clone,
    detached: true,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const code = once(child, 'exit').then(([status]) => status as number | null)
  return { child, code, stdout: text(child.stdout), stderr: text(child.stderr) }
}

function npm(args: string[], cwd = directory): void {
  execFileSync('npm', args, { cwd, env: environment(), stdio: 'pipe' })
}

function environment(): NodeJS.ProcessEnv {
  return { PATH: userPath, HOME: directory, TMPDIR: directory, npm_config_cache: join(directory, 'cache') }
}

function write(path: string, content: string): void {
  mkdirSync(dirname(join(directory, path)), { recursive: true })
  writeFileSync(join(directory, path), content)
}
