import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { useResource } from './use-resource.ts'

/** Where systems install Chromium or Chrome. */
const SYSTEM_PATHS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/** A browser for the tests of this file. */
export function useChromium(): { readonly browser: Browser } {
  return useResource(
    async () => ({ browser: await launchChromium() }),
    ({ browser }) => browser.close(),
  )
}

/** Starts the Chromium of this machine. Installs one into the cache of Playwright where there is none. */
export function launchChromium(): Promise<Browser> {
  const found = [process.env.CHROMIUM_PATH, ...SYSTEM_PATHS].find(path => path !== undefined && existsSync(path))
  if (found === undefined && !existsSync(chromium.executablePath())) {
    const cli = join(dirname(require.resolve('playwright-core/package.json')), 'cli.js')
    execFileSync(process.execPath, [cli, 'install', 'chromium'], { stdio: 'inherit' })
  }
  return chromium.launch({
    ...(found !== undefined && { executablePath: found }),
    // Containers that run tests as root have no sandbox. The pages are our own.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  })
}

const require = createRequire(import.meta.url)
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

/** A page that notes everything a browser complains about. */
export interface WatchedPage {
  readonly page: Page
  readonly context: BrowserContext
  /** Errors of the console, of scripts and of the content security policy. */
  readonly complaints: string[]
}

export async function openPage(
  browser: Browser,
  options: Parameters<Browser['newContext']>[0] & { baseURL: string },
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', message => {
    // The answer 401 of a page that asks for its session before the sign-in is no fault.
    if (message.type() === 'error' && !/status of 401/.test(message.text())) complaints.push(message.text())
  })
  page.on('pageerror', error => complaints.push(error.message))
  page.on('requestfailed', request => {
    if (!/ERR_ABORTED/.test(request.failure()?.errorText ?? '')) complaints.push(`${request.url()} failed`)
  })
  page.on('request', request => {
    if (!request.url().startsWith(options.baseURL)) complaints.push(`asked another host: ${request.url()}`)
  })
  return { page, context, complaints }
}

/** Resolves when a screen has its title and shows no placeholder any more. */
export async function settled(page: Page): Promise<void> {
  await page.locator('body:has(h1):not(:has([aria-busy=true]))').waitFor({ state: 'attached' })
}

/** Returns the serious and critical findings of axe on a page, as texts. */
export async function axeFindings(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  const { violations } = (await page.evaluate('axe.run()')) as AxeReport
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

interface AxeReport {
  readonly violations: readonly { id: string; impact: string; nodes: readonly { html: string }[] }[]
}
