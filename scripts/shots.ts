// `npm run shots` takes the pictures of the documentation: it starts a gateway with the demo model and a new database, sends
// some requests, and opens the console in Chromium.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { launchChromium, settled } from '../test/harness/chromium.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const images = join(root, 'docs', 'images')
const data = mkdtempSync(join(tmpdir(), 'switchyard-shots-'))
mkdirSync(images, { recursive: true })

const gateway = spawn(join(root, 'bin/switchyard'), ['start', '--port', '0'], {
  env: { ...process.env, SWITCHYARD_DATA: data, METRICS_PORT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
try {
  await takeShots(await started())
} finally {
  gateway.kill()
  await once(gateway, 'close')
  rmSync(data, { recursive: true, force: true })
}

/** Reads the link and the key that the first start prints. */
async function started(): Promise<{ link: string; key: string }> {
  let link: string | undefined
  for await (const line of createInterface({ input: gateway.stdout })) {
    link ??= /http\S+\/welcome#\S+/.exec(line)?.[0]
    const key = /^ {2}(sk-sy-\w+)/.exec(line)?.[1]
    if (link !== undefined && key !== undefined) return { link, key }
  }
  throw new Error('The gateway ended before it was ready.')
}

async function takeShots({ link, key }: { link: string; key: string }): Promise<void> {
  const { origin } = new URL(link)
  for (const tokens of [40, 120, 15, 60, 200, 30]) await chat(origin, key, tokens)
  const browser = await launchChromium()
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } })
  const page = await context.newPage()
  await page.goto(link)
  await page.getByRole('textbox', { name: 'Password' }).fill('correct horse battery staple')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.waitForURL(/\/c\//)
  const home = page.url().replace(/\/$/, '')
  await shot(page, home, 'home')
  await shot(page, `${home}/usage?days=7`, 'usage')
  await shot(page, `${home}/keys`, 'keys')
  await page.goto(`${home}/activity`)
  await page.getByRole('link', { name: 'demo' }).first().click()
  await page.getByText('Which servers').waitFor()
  await shot(page, page.url(), 'receipt')
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.setViewportSize({ width: 390, height: 780 })
  await shot(page, home, 'home-phone-dark')
  await browser.close()
}

async function shot(page: Page, url: string, name: string): Promise<void> {
  await page.goto(url)
  await settled(page)
  await page.screenshot({ path: join(images, `${name}.png`), animations: 'disabled' })
  console.log(`docs/images/${name}.png`)
}

async function chat(origin: string, key: string, maxTokens: number): Promise<void> {
  const body = { model: 'demo', max_tokens: maxTokens, messages: [{ role: 'user', content: 'What is a switchyard?' }] }
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`The demo answered ${response.status}: ${await response.text()}`)
  await response.text()
}
