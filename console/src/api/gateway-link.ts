import { t } from '@lingui/core/macro'
import { useSyncExternalStore } from 'react'
import { compareVersions, reloadOnce } from './gateway-version.ts'

/** How a tab stands to its gateway. */
interface Link {
  /** A file of the console waits until the gateway answers again. */
  readonly isWaiting: boolean
  /** The gateway serves another build of the console than this tab runs. */
  readonly isOutdated: boolean
}

let link: Link = { isWaiting: false, isOutdated: false }
const listeners = new Set<() => void>()

function set(change: Partial<Link>): void {
  link = { ...link, ...change }
  for (const listener of listeners) listener()
}

export function useGatewayLink(): Link {
  return useSyncExternalStore(
    listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => link,
  )
}

/**
 * Call it when the gateway answers again: it may have been upgraded. A page that nobody has touched loads again at once.
 * Others say so, and load again with the next page, so that no typed text and no key that is shown once is lost.
 */
export async function onGatewayBack(): Promise<void> {
  if ((await compareVersions()) !== 'other') return
  if (isTouched && document.visibilityState === 'visible') set({ isOutdated: true })
  else if (!(await reloadOnce())) set({ isOutdated: true })
}

/** The next page comes from the gateway as a whole if the tab is outdated. */
export async function onNavigation(): Promise<void> {
  isTouched = false
  if (link.isOutdated) await reloadOnce()
}

/** Somebody clicked or typed on the page since it was opened. */
let isTouched = false

/** Notes what people do on a page. Links do not count: they leave it. */
export function watchTouches(): void {
  const note = ({ target }: Event) => {
    if (target instanceof Element && target.closest('a[href]') === null) isTouched = true
  }
  for (const type of ['input', 'click']) document.addEventListener(type, note, { capture: true })
}

const FAILURES_MAX = 3
const RETRY_MS = 1_000
const RETRY_MS_MAX = 15_000

/**
 * Wraps the import of a file that loads when it is needed, so that a restart or an upgrade of the gateway does not break
 * the page: it waits until the gateway answers, then fetches the file again. The files of another build are gone, so
 * the page then loads again, once.
 */
export function fromGateway<Module>(load: () => Promise<Module>): () => Promise<Module> {
  return async () => {
    for (let failures = 0, delayMs = RETRY_MS; ; delayMs = Math.min(delayMs * 2, RETRY_MS_MAX)) {
      try {
        const module = await load()
        set({ isWaiting: false })
        return module
      } catch (cause) {
        const version = await compareVersions()
        set({ isWaiting: version === 'away' })
        // Some browsers keep a failed import for as long as the page lives: for them, too, only a new page helps.
        if (version !== 'away') failures++
        if ((version === 'other' || failures === FAILURES_MAX) && (await reloadOnce())) await new Promise(() => {})
        if (failures === FAILURES_MAX) throw new Error(texts.fileIsMissing, { cause })
        await new Promise(resolve => setTimeout(resolve, delayMs * (0.5 + Math.random() / 2)))
      }
    }
  }
}

const texts = {
  fileIsMissing: t`A part of this page could not be loaded. Reload the page; if that does not help, try again in a minute.`,
}
