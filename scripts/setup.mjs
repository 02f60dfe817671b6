// Installs what `npm start` and `npm test` need, unless it is there already. Runs before them on whatever Node the machine
// has (20 or newer), so it has no dependencies and no types. The programs themselves then run on the Node that the
// `node` package brings, because npm puts node_modules/.bin first on PATH.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, linkSync, lstatSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(fileURLToPath(new URL('..', import.meta.url)))
const modules = join(root, 'node_modules')
const stampPath = join(modules, '.switchyard-setup')

/** Path of the pinned Node, which exists after `setup`. */
export const pinnedNode = join(modules, '.bin', 'node')

/** Makes node_modules match package-lock.json. Takes a few milliseconds and prints nothing when it already does. */
export function setup() {
  if (!whyInstall()) return
  const release = waitForTurn()
  try {
    // Whoever had the turn before may have done the work.
    const reason = whyInstall()
    if (reason) install(reason)
  } finally {
    release()
  }
}

/** Undefined when everything is installed; otherwise the reason to install, as half a sentence. */
function whyInstall() {
  if (!existsSync(modules)) return 'first run'
  if (!existsSync(pinnedNode)) return 'the pinned Node is missing'
  // A linked node_modules belongs to another checkout; replacing it would break that one.
  if (lstatSync(modules).isSymbolicLink()) return undefined
  const stamp = currentStamp()
  if (read(stampPath) === stamp) return undefined
  if (!matchesLock()) return 'package-lock.json has changed'
  // Installed by hand, or a script in package.json was edited.
  writeFileSync(stampPath, stamp)
  return undefined
}

function currentStamp() {
  const hash = createHash('sha256').update(`${process.platform}-${process.arch}\n`)
  for (const name of ['package.json', 'package-lock.json']) hash.update(readFileSync(join(root, name)))
  return hash.digest('hex')
}

/** Compares the lock file with the copy that npm keeps of what it installed. */
function matchesLock() {
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const installed = JSON.parse(read(join(modules, '.package-lock.json')) ?? '{}').packages ?? {}
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  if (!same({ dependencies, devDependencies }, wanted[''])) return false
  return Object.entries(wanted).every(([path, { optional, devOptional, integrity, version }]) => {
    if (!path.startsWith('node_modules/')) return true
    const found = installed[path]
    return found ? found.integrity === integrity && found.version === version : optional || devOptional
  })
}

const same = (a, b) =>
  ['dependencies', 'devDependencies'].every(kind => JSON.stringify(a[kind] ?? {}) === JSON.stringify(b?.[kind] ?? {}))

function install(reason) {
  console.error(`switchyard: installing dependencies with npm ci (${reason}); this can take a minute`)
  // Development packages too, also under NODE_ENV=production: the tests need them. Errors only, because npm warns that
  // the machine's own Node is older than the one it is just about to install.
  const options = ['--include=dev', '--include=optional', '--ignore-scripts=false', '--loglevel=error']
  const args = ['ci', ...options, '--no-audit', '--no-fund', '--no-progress']
  const npm = process.env.npm_execpath
  const [command, first] = npm && basename(npm) === 'npm-cli.js' ? [process.execPath, [npm]] : ['npm', []]
  const result = spawnSync(command, [...first, ...args], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  if (result.error || result.status !== 0) {
    console.error(`${result.stdout ?? ''}${result.stderr ?? ''}`.trim())
    fail(
      `npm ci failed (${result.error?.message ?? result.signal ?? `exit code ${result.status}`}). Its words are above.`,
    )
  }
  const version = spawnSync(pinnedNode, ['--version'], { encoding: 'utf8' })
  if (version.status !== 0)
    fail(`the Node that npm installed does not run here (${version.error?.message ?? version.stderr}).`)
  writeFileSync(stampPath, currentStamp())
}

/**
 * Two commands may start at the same moment in a fresh clone, and two npm in one directory destroy each other's work.
 * The lock is a file with our process number, outside node_modules because npm empties that.
 */
function waitForTurn() {
  const id = createHash('sha256').update(root).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `switchyard-setup-${id}.lock`)
  for (let told = false; ; ) {
    try {
      writeFileSync(path, String(process.pid), { flag: 'wx' })
      return () => rmSync(path, { force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const holder = Number(read(path))
    if (holder > 0 && !isAlive(holder)) removeLockOf(holder, path)
    else if (holder > 0 || isOlderThan(path, 10_000)) {
      if (!told) console.error(`switchyard: waiting for process ${holder}, which is installing`)
      told = true
      if (!holder) rmSync(path, { force: true })
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
}

function removeLockOf(holder, path) {
  // Taken aside before it is deleted: between reading and now, somebody else may have replaced it with a live one.
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

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) setup()
