import type { Page } from 'playwright-core'

/** Presses Tab until an element with this name has the focus, then Enter. */
export async function byKeyboard(page: Page, name: RegExp): Promise<void> {
  for (let pressed = 0; pressed < 60; pressed++) {
    await page.keyboard.press('Tab')
    const text = (await page.evaluate(
      'document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent',
    )) as string
    if (!name.test(text.trim())) continue
    await page.keyboard.press('Enter')
    return
  }
  throw new Error(`${name} is not within reach of the Tab key`)
}
