import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { chromium } from 'playwright-core'

/** Where systems install Chromium or Chrome. */
const SYSTEM_PATHS = [
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
 * of Playwright. Throws if that fails.
 */
export function installChromium(): void {
  if (systemChromium() !== undefined || existsSync(chromium.executablePath())) return
  console.error('Installing Chromium, which the tests of the console need.')
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) installPackage()
  if (systemChromium() !== undefined) return
  const cli = join(dirname(createRequire(import.meta.url).resolve('playwright-core/package.json')), 'cli.js')
  run(process.execPath, [cli, 'install', 'chromium'])
}

function installPackage(): void {
  try {
    run('apt-get', ['update', '-qq'])
    run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'chromium'])
  } catch {
    // Ubuntu has only a snap of this name, which containers cannot run. Playwright's build is next.
  }
}

function run(command: string, args: string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  execFileSync(command, args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
}
