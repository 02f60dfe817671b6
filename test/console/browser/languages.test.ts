import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { busyInstallation, busyYaml } from '../../harness/busy-installation.ts'
import { openPage, settled, useChromium } from '../../harness/chromium.ts'
import { useResource } from '../../harness/use-resource.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

const upstream = useUpstream('file')
const app = useTestApp(() => ({
  yaml: busyYaml,
  offers: [testOffer(upstream.baseUrl)],
  timeouts: { serverReportIntervalMs: 20 },
}))
const chromium = useChromium()

/** A busy installation, and what a browser keeps of a person who sees all of it. */
const world = useResource(
  async () => {
    const busy = await busyInstallation(app, upstream)
    const [name, value] = busy.client.cookie!.split('=') as [string, string]
    const cookie = { name, value, domain: new URL(app.url).hostname, path: '/', httpOnly: true, expires: -1 }
    return {
      ...busy,
      storageState: { cookies: [{ ...cookie, sameSite: 'Strict' as const, secure: false }], origins: [] },
    }
  },
  () => {},
  'file',
)

test('the language is chosen in the menu, kept, and there before the scripts', async () => {
  const { customerId, storageState } = world
  const { page, context, complaints } = await openPage(chromium.browser, { baseURL: app.url, storageState })
  await page.goto(`/c/${customerId}/keys`)
  await settled(page)
  expect(await page.locator('h1').textContent()).toBe('Keys')
  await page.locator('nav').first().locator('~ * button[aria-haspopup="menu"]').last().click()
  await page.getByRole('menuitem', { name: '简体中文' }).click()
  await expect.poll(() => page.locator('h1').textContent()).toBe('密钥')
  expect(await page.title()).toBe('密钥 – Switchyard')
  expect(await page.locator('html').getAttribute('lang')).toBe('zh-Hans')
  // The frame that the build drew.
  const html = await (await page.request.get(`/c/${customerId}/usage`)).text()
  expect(html).toContain('<html lang="zh-Hans">')
  expect(html).toContain('>用量</h1>')
  expect(html).toContain('<title>用量 – Switchyard</title>')
  await page.goto(`/c/${customerId}/usage`)
  await settled(page)
  expect(await page.locator('h1').textContent()).toBe('用量')
  await context.close()
  expect(complaints).toEqual([])
})

test('a browser that wants Chinese gets it, also before the sign-in', async () => {
  const { page, context, complaints } = await openPage(chromium.browser, { baseURL: app.url, locale: 'zh-CN' })
  await page.goto('/sign-in')
  await page.getByRole('heading', { name: '登录' }).waitFor()
  await page.getByLabel('电子邮箱').fill('nobody@example.com')
  await page.getByRole('textbox', { name: '密码' }).fill('not the password')
  await page.getByRole('button', { name: '登录', exact: true }).click()
  // An error of the API, by its code.
  await page.getByText('电子邮箱或密码错误。').waitFor()
  await page.getByLabel('语言').selectOption('en')
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await context.close()
  expect(complaints).toEqual([])
})

describe('in Chinese, no page has English texts, and each fits 360 px', () => {
  const ofCustomer = ['', '/usage', '/activity', '/keys', '/credits', '/models', '/playground', '/settings/account']
  const ofSettings = ['/settings/people', '/settings/alerts', '/settings/security']
  const ofHoster = ['', '/offers', '/traffic', '/trust', '/earnings', '/connect', '/settings']
  const ofOperator = ['', '/customers', '/usage', '/requests', '/money', '/prices', '/providers', '/models', '/hosters']
  const ofInstallation = ['/payouts', '/people', '/grants', '/log', '/settings', '/system']

  test('customers', async () => {
    const { customerId, requestIds } = world
    const paths = [...ofCustomer, ...ofSettings, ...requestIds.map(id => `/activity/${id}`)]
    await walk([...paths.map(path => `/c/${customerId}${path}`), '/account', '/status', '/nowhere'])
  })

  test('hosters', async () => {
    await walk([...world.hosterIds.flatMap(id => ofHoster.map(path => `/h/${id}${path}`)), '/h/apply'])
  })

  test('operators', async () => {
    const { customerId, hosterIds, batchId } = world
    const details = [
      `/customers/${customerId}`,
      ...hosterIds.map(id => `/hosters/${id}`),
      ...(batchId === null ? [] : [`/payouts/${batchId}`]),
    ]
    await walk([...ofOperator, ...ofInstallation, ...details].map(path => `/operator${path}`))
  })
})

async function walk(paths: readonly string[]) {
  const { storageState } = world
  const options = { baseURL: app.url, storageState, locale: 'zh-CN', viewport: { width: 360, height: 800 } }
  const { page, context, complaints } = await openPage(chromium.browser, options)
  const found: string[] = []
  for (const path of paths) {
    await page.goto(path)
    await settled(page)
    for (const text of await englishOf(page)) found.push(`${path}: ${text}`)
    const excess = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    if (excess !== 0) found.push(`${path}: ${excess} px too wide`)
  }
  await context.close()
  expect(found).toEqual([])
  // The answer for /nowhere.
  expect(complaints.filter(text => !/status of 404/.test(text))).toEqual([])
}

/** Returns the texts with several English words, or with one that is no name. Leaves out code, and what people and servers wrote. */
async function englishOf(page: Page): Promise<string[]> {
  const texts = (await page.evaluate(`(() => {
    const shown = []
    const walker = document.createTreeWalker(document.querySelector('#root'), NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      if (!node.parentElement.closest('style, code, pre, kbd, [lang]:not(html)')) shown.push(node.data)
    for (const element of document.querySelectorAll('#root [aria-label], #root [placeholder]'))
      shown.push(element.getAttribute('aria-label') ?? element.getAttribute('placeholder'))
    return shown
  })()`)) as string[]
  return [...new Set(texts)].filter(text => /[A-Za-z]{3,}/.test(text.replaceAll(NAMES, '')))
}

/** Names, units, addresses and settings that are the same in each language. */
const NAMES = new RegExp(
  [
    ...[/\S+@\S+/, /https?:\S+/, /(?:console-)?[0-9a-f]{8}-[0-9a-f-]{27}/, /\bSY-[A-Z0-9-]+/, /^[A-Z0-9]{5}$/],
    ...[/x-switchyard-label/, /@pydantic\/genai-prices/, /\/v1\/admin/, /docs\/\w+\.md/, /postgresql\.conf/],
    // Settings, such as `routing.attempts_max`, and those of PostgreSQL and of requests.
    ...[/\b[a-z_]+(?:\.[a-z_]+)+\b/, /\b(?:max_tokens|trusted_only|fsync|full_page_writes)\b/],
    ...[
      /\b(?:USD|UTC|API|CSV|JSON Schema|JSON|URL|IBAN|HTTPS|https|TLS|Switchyard|Stripe|OpenAI|Ollama|llama\.cpp|vLLM)\b/,
    ],
    ...[/\b(?:Ctrl|Linux|Node|npm|auto)\b/, /switchyard-VERSION\.tgz/, /\bswitchyard\b/, /\S+\/switchyard\.yaml/],
    ...[/\b(?:LM Studio|JavaScript|Python|curl|Webhook|Enter|tokens?|Token|Top p|PostgreSQL|ZFS|cron|systemd|Caddy)\b/],
    ...[
      /npx switchyard backup FILE/,
      /\b(?:test|other|active|suspended|quarantined)-model\b/,
      /(?:hoster|endpoint)-\w+/,
    ],
    // Names of this world, and the tiers of its customers.
    ...[
      /^Ada\b/,
      /\bTest browser\b/,
      /\btest\b/,
      /\b(?:garage|partners|gpu|serve|manual|backup|free|standard|scale)\b/,
    ],
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)
