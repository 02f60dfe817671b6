import { readFileSync } from 'node:fs'
import { crc32, deflateSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { testOffer } from '../../harness/app.ts'
import { axeFindings, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { answer, type Behaviour, type RecordedRequest } from '../../harness/scripted-upstream.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useTestApp, useUpstream } from '../../harness/use-test-app.ts'

const upstream = useUpstream('file')
const app = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'first' }),
    testOffer(upstream.baseUrl, { modelId: 'second' }),
    testOffer(upstream.baseUrl, { modelId: 'plain', features: new Set() }),
  ],
}))
const chromium = useChromium()
const open: WatchedPage[] = []

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints)
  for (const { context } of open.splice(0)) await context.close()
  expect(complaints).toEqual([])
})

async function playground({ width = 1280, script = '' } = {}) {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId, { width })
  open.push(watched)
  const { page } = watched
  if (script !== '') await page.addInitScript(script)
  await page.goto(`/c/${customerId}/playground`)
  await choose(page, 'Model', 'first')
  return { page, customerId }
}

async function choose(page: Page, label: string, model: string) {
  const field = page.getByRole('combobox', { name: label, exact: true })
  await field.click()
  await page.getByRole('option', { name: model, exact: true }).click()
  await expect.poll(() => field.inputValue()).toBe(model)
}

async function send(page: Page, prompt: string) {
  await page.getByLabel('Prompt', { exact: true }).fill(prompt)
  await page.getByRole('button', { name: 'Send', exact: true }).click()
}

const answerOf = (page: Page, model: string) => page.getByRole('article').filter({ hasText: model }).last()
const modelOf = ({ body }: RecordedRequest) => body.model!.replace('upstream-', '')
const roles = ({ body }: RecordedRequest) => body.messages!.map(({ role, content }) => `${role}: ${content}`)

/** Answers with the name of the model that was asked. */
const ownName: Behaviour = (request, response) =>
  answer({ text: `I am ${modelOf(request)}, said ${request.body.messages!.length} times.` })(request, response)

test.each([1280, 360])('two models answer side by side, each with its figures, at %i px', async width => {
  upstream.always(ownName)
  const { page, customerId } = await playground({ width })
  await page.getByRole('button', { name: 'Compare with another model' }).click()
  await choose(page, 'Model 2', 'second')
  await send(page, 'Who are you?')
  for (const model of ['first', 'second']) {
    const column = answerOf(page, `I am ${model}`)
    await column.getByRole('link', { name: 'receipt' }).waitFor()
    const figures = await column.locator('dl').textContent()
    expect(figures).toMatch(/Cost0\.0000\d+ USD.*tokens.*First token[\d.]+ m?s.*Total time/)
    const { rows } = await app.database.pool.query<{ cost: number }>(
      'SELECT cost_nanos::float8 / 1e9 AS cost FROM usage_event WHERE customer_id = $1 AND model_id = $2',
      [customerId, model],
    )
    expect(rows).toEqual([{ cost: Number(/Cost([\d.]+) USD/.exec(figures!)![1]) }])
  }
  const [left, right] = await Promise.all(
    ['first', 'second'].map(model => answerOf(page, `I am ${model}`).boundingBox()),
  )
  expect(left!.y === right!.y).toBe(width === 1280)
  const asked = upstream.requests.length
  await send(page, 'Again?')
  await expect.poll(() => upstream.requests.length).toBe(asked + 2)
  for (const request of upstream.requests.slice(asked)) {
    expect(roles(request)).toEqual([
      'user: Who are you?',
      `assistant: I am ${modelOf(request)}, said 1 times.`,
      'user: Again?',
    ])
  }
  await expect.poll(() => page.getByRole('link', { name: 'receipt' }).count()).toBe(4)
  expect(await axeFindings(page)).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
})

test('a model that fails does not take the answers of the others with it', async () => {
  upstream.always((request, response) =>
    modelOf(request) === 'second'
      ? void response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')
      : ownName(request, response),
  )
  const { page } = await playground()
  await page.getByRole('button', { name: 'Compare with another model' }).click()
  await choose(page, 'Model 2', 'second')
  await send(page, 'Who are you?')
  await answerOf(page, 'I am first').getByRole('link', { name: 'receipt' }).waitFor()
  await page.getByRole('article').last().getByRole('alert').waitFor()
  open[0]!.complaints.length = 0
})

test('a function is checked, called, answered by hand, and the model goes on', async () => {
  upstream.always((request, response) =>
    request.body.messages!.at(-1)!.role === 'tool'
      ? answer({ text: 'It is cold.' })(request, response)
      : answer({ toolCalls: [{ id: 'call_7', name: 'get_weather', arguments: '{"city":"Bern"}' }] })(request, response),
  )
  const { page } = await playground()
  await page.getByText('Functions', { exact: true }).click()
  await page.getByLabel('Functions as JSON').fill('[{"name":"a b"}]')
  await page.getByText('Function 1: name must have').waitFor()
  await page.getByLabel('Functions as JSON').fill('')
  await page.getByRole('button', { name: 'Fill in an example' }).click()
  await send(page, 'How is the weather in Bern?')
  const call = page.getByRole('region', { name: 'Call of get_weather' })
  await expect
    .poll(() => call.getByRole('region', { name: 'the arguments of get_weather' }).textContent())
    .toBe('{\n  "city": "Bern"\n}')
  expect(upstream.requests.at(-1)!.body.tools).toMatchObject([{ function: { name: 'get_weather' } }])
  await page.getByLabel('Prompt', { exact: true }).fill('Next')
  expect(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled()).toBe(true)
  await call.getByLabel('Result of get_weather').fill('4 degrees')
  await page.getByRole('button', { name: 'Send the results' }).click()
  await page.getByText('It is cold.').waitFor()
  expect(upstream.requests.at(-1)!.body.messages!.slice(1)).toMatchObject([
    { role: 'assistant', tool_calls: [{ id: 'call_7', function: { arguments: '{"city":"Bern"}' } }] },
    { role: 'tool', tool_call_id: 'call_7', content: '4 degrees' },
  ])
  // Each step has its own charge.
  await expect.poll(() => page.getByRole('link', { name: 'receipt' }).count()).toBe(2)
  expect(await axeFindings(page)).toEqual([])
})

test('images are attached and pasted, scaled down, and kept from models that take none', async () => {
  upstream.always(ownName)
  const { page } = await playground()
  const file = (name: string, width: number) => ({ name, mimeType: 'image/png', buffer: pngOf(width, 8) })
  await page.getByLabel('Image files').setInputFiles([file('small.png', 8), file('large.png', 4_000)])
  await page.getByRole('button', { name: 'Remove image 2' }).waitFor()
  await page.getByLabel('Prompt', { exact: true }).focus()
  await page.evaluate(`{
    const data = new DataTransfer()
    const bytes = Uint8Array.from(atob('${pngOf(8, 8).toString('base64')}'), each => each.charCodeAt(0))
    data.items.add(new File([bytes], 'pasted.png', { type: 'image/png' }))
    document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }))
  }`)
  await page.getByRole('button', { name: 'Remove image 3' }).waitFor()
  await send(page, 'What is it?')
  await page.getByRole('link', { name: 'receipt' }).waitFor()
  const [text, ...images] = upstream.requests.at(-1)!.body.messages![0]!.content as { image_url: { url: string } }[]
  expect(text).toEqual({ type: 'text', text: 'What is it?' })
  const png = `data:image/png;base64,${pngOf(8, 8).toString('base64')}`
  expect(images.map(({ image_url }) => image_url.url)).toEqual([png, expect.stringMatching(/^data:image\/jpeg/), png])
  expect(await page.getByRole('article').first().locator('img').count()).toBe(3)

  await page
    .getByLabel('Image files')
    .setInputFiles([{ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('a') }])
  await page.getByText('a.txt is no PNG, JPEG, WebP or GIF.').waitFor()
  await choose(page, 'Model', 'plain')
  expect(await page.getByRole('button', { name: 'Add images' }).isDisabled()).toBe(true)
})

test('a private talk is not kept, and comparing asks for no quotes', async () => {
  upstream.always(ownName)
  const { page } = await playground()
  const quotes: string[] = []
  page.on('request', request => {
    if (request.postData()?.includes('"dry_run":true')) quotes.push(request.url())
  })
  await page.getByRole('checkbox', { name: 'Private' }).check()
  await page.getByRole('button', { name: 'Compare with another model' }).click()
  await page.getByLabel('Most each answer may cost, USD').waitFor()
  await send(page, 'Nobody shall read this.')
  await expect.poll(() => page.getByRole('link', { name: 'receipt' }).count()).toBe(2)
  // The talk still has the private turn.
  await page.getByRole('checkbox', { name: 'Private' }).uncheck()
  await send(page, 'Nobody shall read this either.')
  await expect.poll(() => page.getByRole('link', { name: 'receipt' }).count()).toBe(4)
  await page.getByRole('button', { name: 'New talk' }).click()
  await send(page, 'Keep this.')
  await expect.poll(() => page.getByRole('link', { name: 'receipt' }).count()).toBe(2)
  const list = page.getByRole('dialog', { name: 'Talks' })
  const titles = async () => {
    await page.getByRole('button', { name: 'Talks', exact: true }).click()
    await list.getByText('Only this browser has them').waitFor()
    const found = await list.getByRole('button', { name: /^(Keep|Nobody)/ }).allTextContents()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    return found.map(each => each.slice(0, 4))
  }
  await expect.poll(titles).toEqual(['Keep'])
  expect(quotes).toEqual([])
})

test('talks are kept in this browser only: opened, renamed, saved as a file, deleted', async () => {
  upstream.always(ownName)
  const { page } = await playground()
  const sent: string[] = []
  page.on('request', request => sent.push(request.postData() ?? ''))
  await send(page, 'Remember the ferry.')
  await page.getByRole('link', { name: 'receipt' }).waitFor()
  const writes = sent.filter(body => body.includes('ferry') && !body.includes('"dry_run":true'))
  const list = page.getByRole('dialog', { name: 'Talks' })
  const isKept = async () => {
    await page.getByRole('button', { name: 'Talks', exact: true }).click()
    await list.getByText('Only this browser has them').waitFor()
    const count = await list.getByRole('button', { name: /^Remember the ferry/ }).count()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    return count
  }
  await expect.poll(isKept).toBe(1)
  await page.reload()
  await page.getByRole('button', { name: 'Talks', exact: true }).click()
  await list.getByRole('button', { name: 'Actions of Remember the ferry.' }).click()
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  await page.getByLabel('Title').fill('Ferries')
  await page.keyboard.press('Enter')
  await list.getByRole('button', { name: /^Ferries/ }).waitFor()
  await list.getByRole('button', { name: 'Actions of Ferries' }).click()
  const downloading = page.waitForEvent('download')
  await page.getByRole('menuitem', { name: 'Save as JSON' }).click()
  const saved = JSON.parse(readFileSync(await (await downloading).path(), 'utf8'))
  expect(saved).toMatchObject({
    title: 'Ferries',
    models: [
      {
        model: 'first',
        messages: [{ role: 'user', content: 'Remember the ferry.' }, { role: 'assistant' }],
        answers: [{ model: 'first', cost_usd: expect.any(Number) }],
      },
    ],
  })
  expect(await axeFindings(page)).toEqual([])
  await list.getByRole('button', { name: /^Ferries/ }).click()
  await answerOf(page, 'I am first').getByRole('link', { name: 'receipt' }).waitFor()
  // It goes on where it was.
  await send(page, 'And?')
  await answerOf(page, 'said 3 times').getByRole('link', { name: 'receipt' }).waitFor()
  await page.getByRole('button', { name: 'Talks', exact: true }).click()
  await list.getByRole('button', { name: 'Actions of Ferries' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await page.getByRole('dialog', { name: 'Delete this talk?' }).getByRole('button', { name: 'Delete' }).click()
  await list.getByText('No talk yet.').waitFor()
  // Only the request itself had it.
  expect(writes).toHaveLength(1)
})

test('a browser without a place for talks keeps them as long as the page lives', async () => {
  upstream.always(ownName)
  const { page } = await playground({ script: "Object.defineProperty(window, 'indexedDB', { value: undefined })" })
  await send(page, 'Hello!')
  await page.getByRole('link', { name: 'receipt' }).waitFor()
  await page.getByRole('button', { name: 'New talk' }).click()
  await page.getByRole('button', { name: 'Talks', exact: true }).click()
  await page.getByText('This browser keeps nothing in this window.').waitFor()
  await page.getByRole('button', { name: /^Hello!/ }).click()
  await answerOf(page, 'I am first').waitFor()
})

const rich = String.raw`# Title

| Ferry | Cars |
| ----- | ---: |
| Ada   |   12 |

The sum \(x^2\) and

\[ \sqrt{\frac{a}{b}} = \boxed{\left\{ \begin{matrix} 1 \\ 2 \end{matrix} \right.} \]

It costs $5 to $10, and \(\frac{\) is broken.

${'```'}python
def ferry():
    return "cars"  # all
${'```'}
`

test('an answer has tables, formulas and code in colours, loaded when they are needed, within the policy', async () => {
  upstream.always(answer({ text: 'Nothing.' }))
  const { page } = await playground()
  const files: string[] = []
  page.on('request', request => files.push(new URL(request.url()).pathname))
  await send(page, 'Short')
  await page.getByRole('link', { name: 'receipt' }).waitFor()
  expect(files.filter(path => /Maths|CodeInColors|KaTeX/.test(path))).toEqual([])
  upstream.always(answer({ text: rich }))
  await send(page, 'Long')
  const shown = page.getByRole('article').last()
  await shown.getByRole('link', { name: 'receipt' }).waitFor()
  await expect.poll(() => shown.locator('.katex').count()).toBe(2)
  expect(await shown.locator('.katex-display').count()).toBe(1)
  expect(await shown.getByRole('cell', { name: '12' }).count()).toBe(1)
  await shown.locator('.hljs-keyword', { hasText: 'def' }).waitFor()
  expect(await shown.textContent()).toContain('It costs $5 to $10, and \\frac{ is broken.')
  expect(await shown.getByRole('heading').allTextContents()).toEqual(['first', 'Title'])
  expect(await shown.locator('h4').allTextContents()).toEqual(['Title'])
  await expect.poll(() => files.filter(path => /KaTeX_.*\.woff2$/.test(path)).length).toBeGreaterThan(0)
  expect(await page.evaluate("document.fonts.check('16px KaTeX_Main')")).toBe(true)
  await shown.getByRole('button', { name: 'Copy the code' }).waitFor()
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    expect(await axeFindings(page)).toEqual([])
  }
  await page.setViewportSize({ width: 360, height: 800 })
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
})

/** Their parts have styles: as attributes, the policy would refuse those of the first four. */
const formulas = [
  ...[String.raw`\vec{v}`, String.raw`\oiint_S`, String.raw`\pmb{x}`, String.raw`\fcolorbox{red}{white}{a}`],
  ...[String.raw`\widehat{abc}`, String.raw`\xrightarrow{d}`, String.raw`\overbrace{e}^{f}`, String.raw`\cancel{g}`],
  ...[String.raw`\color{blue} h`, String.raw`\rule{1em}{2em}`, String.raw`\raisebox{1em}{i}`, String.raw`\phase{j}`],
  String.raw`\begin{array}{c|c} 1 & 2 \\ \hdashline 3 & 4 \end{array}`,
]

test('no formula breaks the policy, and each has its styles', async () => {
  upstream.always(answer({ text: formulas.map(tex => String.raw`\(${tex}\)`).join('\n\n') }))
  const { page } = await playground()
  const violations: string[] = []
  await page.exposeFunction('noteViolation', (text: string) => violations.push(text))
  await page.evaluate(
    "addEventListener('securitypolicyviolation', each => noteViolation(each.violatedDirective + ' ' + each.sample))",
  )
  await send(page, 'All')
  const shown = page.getByRole('article').last()
  await shown.getByRole('link', { name: 'receipt' }).waitFor()
  await expect.poll(() => shown.locator('.katex').count()).toBe(formulas.length)
  const arrow = shown.locator('.katex').first().locator('.overlay svg')
  expect(await arrow.getAttribute('style')).toBe('width: 0.471em;')
  expect(await shown.locator('[data-style]').count()).toBe(0)
  const policy = (await page.request.get(page.url())).headers()['content-security-policy']
  expect(policy).toMatch(/style-src 'self' 'nonce-[^']+'(?:;|$)/)
  expect(violations).toEqual([])
})

/** A white image as a PNG. */
function pngOf(width: number, height: number): Buffer {
  const part = (kind: string, data: Buffer) => {
    const named = Buffer.concat([Buffer.from(kind), data])
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(data.length)
    sum.writeUInt32BE(crc32(named))
    return Buffer.concat([length, named, sum])
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  // 8 bits of grey.
  head[8] = 8
  const rows = Buffer.alloc(height * (width + 1), 255)
  for (let row = 0; row < height; row++) rows[row * (width + 1)] = 0
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([signature, part('IHDR', head), part('IDAT', deflateSync(rows)), part('IEND', Buffer.alloc(0))])
}
