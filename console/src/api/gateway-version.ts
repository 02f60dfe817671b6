/**
 * Which build of the console the gateway serves now. Every build names its entry script anew, so the name tells builds
 * apart.
 *
 * @returns `away`: no gateway answers, or a proxy answers in its place
 */
export async function compareVersions(): Promise<'same' | 'other' | 'away'> {
  const served = await servedEntry()
  if (served === null) return 'away'
  return served === ownEntry ? 'same' : 'other'
}

/**
 * Loads the page again if this tab has not yet done so for the build that is served now: a page that still finds
 * another build after that, such as behind two gateways of different versions, stays as it is. Returns whether it
 * reloads.
 */
export async function reloadOnce(): Promise<boolean> {
  const served = await servedEntry()
  if (served === null || sessionStorage.getItem(RELOADED_FOR) === served) return false
  sessionStorage.setItem(RELOADED_FOR, served)
  location.reload()
  return true
}

const RELOADED_FOR = 'switchyard-reloaded-for'

const ENTRY = /<script type="module"[^>]* src="([^"]+)"/

const ownEntry = document.querySelector<HTMLScriptElement>('script[type="module"][src]')?.getAttribute('src') ?? null

async function servedEntry(): Promise<string | null> {
  try {
    const response = await fetch('/sign-in', { cache: 'no-store', credentials: 'omit' })
    return response.ok ? (ENTRY.exec(await response.text())?.[1] ?? null) : null
  } catch {
    return null
  }
}
