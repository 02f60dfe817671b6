import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { chromium } from 'playwright-core'

/** Chromium without its windows, a package of Debian. With it, seven tests of pages take 16 s of CPU time instead of 23 s. */
const SHELL_PATH = '/usr/bin/chromium-headless-shell'

/** Where systems install Chromium or Chrome. */
const SYSTEM_PATHS = [
  SHELL_PATH,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/** Returns the path of the Chromium that this machine has, or undefined. */
export function systemChromium(): string | undefined {
  return [process.env.CHROMIUM_PATH, ...SYSTEM_PATHS].find(path => path !== undefined && existsSync(path))
}

/**
 * Installs Chromium where this machine has none: the package of Debian or Ubuntu when run as root, otherwise the build
 * of Playwright. Throws if that fails. Next to the Chromium of Debian it installs the headless shell of the same version.
 */
export function installChromium(): void {
  const mayInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
  if (mayInstall && !existsSync(SHELL_PATH)) installShell()
  if (systemChromium() !== undefined || existsSync(chromium.executablePath())) return
  console.error('Installing Chromium, which the tests of the console need.')
  if (mayInstall) installPackage()
  if (systemChromium() !== undefined) return
  const cli = join(dirname(createRequire(import.meta.url).resolve('playwright-core/package.json')), 'cli.js')
  run(process.execPath, [cli, 'install', 'chromium'])
}

/** Asks for the version of the Chromium that is installed, so that apt upgrades nothing. */
function installShell(): void {
  try {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query fills it in
    const version = execFileSync('dpkg-query', ['-W', '-f', '${Version}', 'chromium'], { stdio: 'pipe' })
    install(`chromium-headless-shell=${version}`)
  } catch {
    // No Chromium of Debian is installed, or apt has no such shell: another Chromium runs the tests.
  }
}

function installPackage(): void {
  try {
    run('apt-get', ['update', '-qq'])
    install('chromium-headless-shell')
  } catch {
    // Ubuntu has no such package, and Chromium only as a snap, which containers cannot run. Playwright's build is next.
  }
}

function install(name: string): void {
  run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', name])
}

function run(command: string, args: string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  execFileSync(command, args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
}
