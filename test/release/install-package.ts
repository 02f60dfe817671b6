import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('../../', import.meta.url))
const run = promisify(execFile)

/** The PATH of a user: without the programs that npm installed in the clone, such as the pinned Node. */
export const userPath = process.env
  .PATH!.split(delimiter)
  .filter(directory => !directory.split(sep).includes('node_modules'))
  .join(delimiter)

/** Builds the package in `directory` and returns the path of the archive. */
export async function buildPackage(directory: string): Promise<string> {
  const build = join(root, 'scripts/build.ts')
  const flags = ['--disable-warning=ExperimentalWarning']
  const { stdout } = await run(process.execPath, [...flags, build, directory], { env: userEnvironment() })
  return stdout.trim()
}

/** Installs an archive in `directory` with the npm of the machine. */
export async function installPackage(
  archive: string,
  directory: string,
): Promise<{ packageDir: string; program: string }> {
  await mkdir(directory)
  // Keeps npm from installing into a parent directory. `--prefix` would do so too, but npm then reads no configuration of the machine.
  await writeFile(join(directory, 'package.json'), '{"private":true}')
  // The gateway needs no install script of a package.
  const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  await run('npm', ['install', ...options, archive], { cwd: directory, env: userEnvironment() })
  const { name } = await readManifest()
  const modules = join(directory, 'node_modules')
  return { packageDir: join(modules, String(name)), program: join(modules, '.bin/switchyard') }
}

export async function readManifest(): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
}

/** Without the variables that npm sets for its scripts, which would make another npm work in the clone. */
function userEnvironment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|INIT_CWD$|NODE_ENV$|VITEST)/.test(name))
  return { ...Object.fromEntries(own), PATH: userPath }
}
