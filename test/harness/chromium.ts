import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { installChromium, systemChromium } from './install-chromium.ts'
import { useResource } from './use-resource.ts'

/** A browser for the tests of this file. The files of a process share it, because its start costs as much as several tests. */
export function useChromium(): { readonly browser: Browser } {
  return useResource(
    async () => {
      shared ??= launchChromium()
      const browser = await shared
      browser.once('disconnected', () => {
        shared = undefined
      })
      return { browser }
    },
    ({ browser }) => Promise.all(browser.contexts().map(context => context.close())),
  )
}

/** Ends with its process. */
let shared: Promise<Browser> | undefined

/** Starts the Chromium of this machine, after installing one where it has none. */
export function launchChromium(): Promise<Browser> {
  installChromium()
  const found = systemChromium()
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
  // Animations would be drawn 60 times a second, and no test looks at one.
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
    locale: 'en-GB',
    ...options,
  })
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
  if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(axe)
  // The whole report also lists each element that passed: up to 900 kB, which take twice as long as the checks.
  const { violations } = (await page.evaluate(
    "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => ({ violations }))",
  )) as AxeReport
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

interface AxeReport {
  readonly violations: readonly { id: string; impact: string; nodes: readonly { html: string }[] }[]
}
