import { expect, test } from 'vitest'
import { axeFindings, openPage, useChromium } from '../../harness/chromium.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'

const app = useDemoApp()
const chromium = useChromium()

test.each(['light', 'dark'] as const)('the texts of the API reference have enough contrast, %s', async colorScheme => {
  const { page, context, complaints } = await openPage(chromium.browser, { baseURL: app.url, colorScheme })
  await page.goto('/docs')
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  await page.getByText('/v1/chat/completions').first().waitFor()
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 800 })
    const findings = (await axeFindings(page)).filter(text => text.startsWith('color-contrast'))
    expect.soft(findings, `${width} px`).toEqual([])
  }
  await context.close()
  expect(complaints).toEqual([])
})
