// Installs the packages that a clone needs, unless they are already installed. bin/switchyard runs it for the gateway,
// which needs production packages only; `npm test` and the benchmark run it with --dev, which also installs the development
// packages. It runs on whatever Node the machine has (20 or newer), so it has no dependencies and no types.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, linkSync, lstatSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(fileURLToPath(new URL('..', import.meta.url)))
const modules = join(root, 'node_modules')
const stampPath = join(modules, '.switchyard-setup')

/** The Node that npm installs. npm links it, and puts this directory first on the PATH of scripts. */
const pinnedNode = join(modules, '.bin', 'node')

/**
 * Makes node_modules match package-lock.json. Takes a few milliseconds and prints nothing when it already does.
 * Without `dev`, development packages are neither required nor removed.
 */
function setup({ dev }) {
  if (!reasonToInstall(dev)) return
  const release = acquireLock()
  try {
    // The previous holder of the lock may have installed everything.
    const reason = reasonToInstall(dev)
    if (reason) install(reason, dev || hasDevPackages())
  } finally {
    release()
  }
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

const installedPackages = () => JSON.parse(read(join(modules, '.package-lock.json')) ?? '{}').packages ?? {}

function install(reason, dev) {
  console.error(`switchyard: installing dependencies with npm ci (${reason}); this can take a minute`)
  // The options override NODE_ENV and the user's npm configuration. Only errors are shown, because npm warns that the
  // machine's Node is older than some packages require, and they run on the Node that is being installed.
  const options = [dev ? '--include=dev' : '--omit=dev', '--include=optional', '--ignore-scripts=false']
  const args = ['ci', ...options, '--loglevel=error', '--no-audit', '--no-fund', '--no-progress']
  const npm = process.env.npm_execpath
  const [command, first] = npm && basename(npm) === 'npm-cli.js' ? [process.execPath, [npm]] : ['npm', []]
  const result = spawnSync(command, [...first, ...args], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  if (result.error || result.status !== 0) {
    console.error(`${result.stdout ?? ''}${result.stderr ?? ''}`.trim())
    fail(
      `npm ci failed (${result.error?.message ?? result.signal ?? `exit code ${result.status}`}). Its output is above.`,
    )
  }
  const version = spawnSync(pinnedNode, ['--version'], { encoding: 'utf8' })
  if (version.status !== 0)
    fail(`the Node that npm installed does not run on this machine (${version.error?.message ?? version.stderr}).`)
  writeStamp(stampOf(dev))
}

/**
 * Waits until no other process installs here, and returns a function that releases the lock. Two commands may start at the
 * same moment in a fresh clone, and two runs of npm in one directory destroy each other's work. The lock is a file that
 * holds the process id, outside node_modules because npm empties that directory.
 */
function acquireLock() {
  const id = createHash('sha256').update(root).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `switchyard-setup-${id}.lock`)
  for (let announced = false; ; ) {
    try {
      writeFileSync(path, String(process.pid), { flag: 'wx' })
      return () => rmSync(path, { force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const holder = Number(read(path))
    if (holder > 0 && !isAlive(holder)) removeStaleLock(holder, path)
    else if (holder > 0 || isOlderThan(path, 10_000)) {
      if (!announced) console.error(`switchyard: waiting for process ${holder}, which is installing`)
      announced = true
      if (!holder) rmSync(path, { force: true })
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
}

function removeStaleLock(holder, path) {
  // Renamed before it is deleted: since the lock was read, another process may have replaced it with its own.
  const aside = `${path}.${process.pid}`
  try {
    renameSync(path, aside)
    if (Number(read(aside)) !== holder) linkSync(aside, path)
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'EEXIST') throw error
  }
  rmSync(aside, { force: true })
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0)
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

function fail(message) {
  console.error(`switchyard: ${message}`)
  process.exit(1)
}

setup({ dev: process.argv.includes('--dev') })
