import type { Browser } from 'playwright-core'
import type { MemberRole } from '../../src/base/domain/member-role.ts'
import type { TestApp } from './app.ts'
import { signedInMember } from './browser-client.ts'
import { openPage, type WatchedPage } from './chromium.ts'

/** Opens a page of a person who is a member of the customer and signed in. */
export async function openSignedIn(
  browser: Browser,
  app: TestApp,
  customerId: string,
  {
    role = 'owner',
    width = 1280,
    timezoneId = 'UTC',
  }: { readonly role?: MemberRole; readonly width?: number; readonly timezoneId?: string } = {},
): Promise<WatchedPage & { readonly email: string }> {
  const { browser: client, email } = await signedInMember(app, customerId, role)
  const [name, value] = client.cookie!.split('=') as [string, string]
  const cookie = { name, value, domain: new URL(app.url).hostname, path: '/', httpOnly: true, expires: -1 }
  const storageState = { cookies: [{ ...cookie, sameSite: 'Strict' as const, secure: false }], origins: [] }
  const viewport = { width, height: 800 }
  const watched = await openPage(browser, { baseURL: app.url, storageState, viewport, timezoneId })
  return { ...watched, email }
}
