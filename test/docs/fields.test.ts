import { expect, test } from 'vitest'
import { fieldsPage } from './field-outcomes.ts'
import { readPage } from './page.ts'
import { sdkVersion } from './sdk-fields.ts'

test('docs/fields.md has every field of the SDKs and what becomes of it; `npm run clients:fields` writes it', async () => {
  const page = await fieldsPage(sdkVersion)
  expect(page).not.toContain('| lost')
  expect(readPage('docs/fields.md')).toBe(page)
})
