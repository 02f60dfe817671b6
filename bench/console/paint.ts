import type { Page } from 'playwright-core'
import { launchChromium, settled } from '../../test/harness/chromium.ts'
import { percentile } from '../percentile.ts'
import type { Screen } from './screens.ts'

/** When a browser has painted the title of a screen, and when the screen shows its data, in ms from the start of the navigation. */
export interface PaintFigures {
  readonly name: string
  readonly firstPaintMs: number
  readonly firstPaintMaxMs: number
  readonly dataMs: number
  readonly dataMaxMs: number
}

/** Opens each screen `times` times in Chromium, with the cookie of a session. The assets are in the browser's cache after the first. */
export async function measurePaints(
  origin: string,
  screens: readonly (Screen & { readonly cookie: string })[],
  times: number,
): Promise<PaintFigures[]> {
  const browser = await launchChromium()
  try {
    const figures: PaintFigures[] = []
    for (const { name, page: path, cookie } of screens) {
      if (path === null) continue
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
      const [cookieName, value] = cookie.split('=') as [string, string]
      await context.addCookies([{ name: cookieName, value, url: origin }])
      const page = await context.newPage()
      await page.addInitScript(WATCH_TITLE)
      const firstMs: number[] = []
      const dataMs: number[] = []
      for (let time = 0; time < times; time++) {
        const { first, data } = await open(page, `${origin}${path}`)
        firstMs.push(first)
        dataMs.push(data)
      }
      await context.close()
      firstMs.sort((a, b) => a - b)
      dataMs.sort((a, b) => a - b)
      figures.push({
        name,
        firstPaintMs: percentile(firstMs, 0.5),
        firstPaintMaxMs: firstMs.at(-1)!,
        dataMs: percentile(dataMs, 0.5),
        dataMaxMs: dataMs.at(-1)!,
      })
    }
    return figures
  } finally {
    await browser.close()
  }
}

/** Notes when the title of a screen is painted for the first time. */
const WATCH_TITLE = `
  globalThis.titlePaintedMs = new Promise(resolve => {
    new PerformanceObserver(list => resolve(list.getEntries()[0].renderTime)).observe({ type: 'element', buffered: true })
  })
  new MutationObserver(() => {
    for (const title of document.querySelectorAll('h1:not([elementtiming])')) title.setAttribute('elementtiming', 'title')
  }).observe(document, { childList: true, subtree: true })`

async function open(page: Page, url: string): Promise<{ first: number; data: number }> {
  await page.goto('about:blank')
  await page.goto(url, { waitUntil: 'commit' })
  await settled(page)
  const data = Number(await page.evaluate('performance.now()'))
  return { data, first: Number(await page.evaluate('titlePaintedMs')) }
}
