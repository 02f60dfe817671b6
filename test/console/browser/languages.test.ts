import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { addHosterMember } from '../../../src/market/marketplace/hoster-members.ts'
import { makeOperator, signedInMember } from '../../harness/browser-client.ts'
import { openPage, settled, useChromium } from '../../harness/chromium.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'
import { useResource } from '../../harness/use-resource.ts'
import { createHoster } from '../../trust/trust-world.ts'

const app = useDemoApp()
const chromium = useChromium()

/** An operator with a customer and a hoster, and a few requests. */
const world = useResource(
  async () => {
    const customer = await app.customer({ creditNanos: 5_000_000_000n })
    const body = JSON.stringify({ model: 'demo', max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] })
    const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' }
    const answer = await fetch(`${app.url}/v1/chat/completions`, { method: 'POST', headers, body })
    const requestId = answer.headers.get('x-request-id')!
    await answer.text()
    const { browser: client, email } = await signedInMember(app, customer.customerId)
    const { hosterId } = await createHoster(app.database)
    const { rows } = await app.database.pool.query<{ person_id: string }>(
      'SELECT person_id FROM person WHERE email = $1',
      [email],
    )
    await addHosterMember(app.database.pool, { hosterId, personId: rows[0]!.person_id, role: 'owner' })
    await makeOperator(app, email)
    const [name, value] = client.cookie!.split('=') as [string, string]
    const cookie = { name, value, domain: new URL(app.url).hostname, path: '/', httpOnly: true, expires: -1 }
    return {
      customerId: customer.customerId,
      hosterId,
      requestId,
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

test('in Chinese, no page has English texts, and each fits 360 px', async () => {
  const { customerId, hosterId, requestId, storageState } = world
  const options = { baseURL: app.url, storageState, locale: 'zh-CN', viewport: { width: 360, height: 800 } }
  const { page, context, complaints } = await openPage(chromium.browser, options)
  const ofCustomer = ['', '/usage', '/activity', `/activity/${requestId}`, '/keys', '/credits', '/models']
  const ofSettings = ['/playground', '/settings/account', '/settings/people', '/settings/alerts', '/settings/security']
  const ofHoster = ['', '/offers', '/traffic', '/trust', '/earnings', '/connect', '/settings']
  const ofOperator = ['', '/customers', '/usage', '/requests', '/money', '/prices', '/providers', '/models', '/hosters']
  const found: string[] = []
  for (const path of [
    ...[...ofCustomer, ...ofSettings].map(each => `/c/${customerId}${each}`),
    ...ofHoster.map(each => `/h/${hosterId}${each}`),
    ...[...ofOperator, '/payouts', '/people', '/grants', '/log'].map(each => `/operator${each}`),
    ...[`/operator/customers/${customerId}`, `/operator/hosters/${hosterId}`, '/account', '/h/apply', '/status'],
  ]) {
    await page.goto(path)
    await settled(page)
    for (const text of await englishOf(page)) found.push(`${path}: ${text}`)
    const excess = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
    if (excess !== 0) found.push(`${path}: ${excess} px too wide`)
  }
  await context.close()
  expect(found).toEqual([])
  expect(complaints).toEqual([])
})

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
  return [...new Set(texts)].filter(
    text => /[A-Za-z]{3,}/.test(text.replaceAll(NAMES, '')) && !FROM_THE_API.some(pattern => pattern.test(text)),
  )
}

/** Names, units and examples that are the same in each language. */
const NAMES = new RegExp(
  [
    ...[
      /\S+@\S+/,
      /https?:\S+/,
      /hoster-\w+/,
      /x-switchyard-label/,
      /@pydantic\/genai-prices/,
      /\/v1\/admin/,
      /max_tokens/,
    ],
    ...[/\b(?:USD|UTC|API|CSV|JSON Schema|JSON|URL|IBAN|HTTPS|TLS|Switchyard|Stripe|OpenAI|Ollama|llama\.cpp|vLLM)\b/],
    ...[/\b(?:LM Studio|JavaScript|Python|curl|Webhook|Enter|tokens?|Token|Top p|serve|demo|switchyard-demo)\b/],
    // A person, a browser, a key, and the tiers of this gateway.
    ...[/^Ada\b/, /\bTest browser\b/, /\btest\b/, /\b(?:free|standard|scale)\b/],
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)

/** What the API says: alarms and steps of the operator's home, what would raise a trust score, a reason in a history. */
const FROM_THE_API = [
  ...[/^The operator activated it\.$/, /^(?:\d+ more|More) (?:requests|audits|days)\b/, /in switchyard\.yaml/],
  ...[
    /^No mail server/,
    /^Customers cannot buy/,
    /^One model is/,
    /^No backup/,
    /^Run "npx/,
    /^People use/,
    /^Put a proxy/,
  ],
]
