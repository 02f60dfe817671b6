import { useState } from 'react'

/**
 * Returns the secret of the link that opened the page: the part after #. Removes it from the address and the history, and keeps it
 * in this tab, so that the page can be loaded again.
 */
export function useLinkSecret(): string {
  const [secret] = useState(() => {
    const name = `link ${location.pathname}`
    const linked = location.hash.slice(1)
    try {
      if (linked !== '') sessionStorage.setItem(name, linked)
      return linked === '' ? (sessionStorage.getItem(name) ?? '') : linked
    } catch {
      // Some private windows store nothing.
      return linked
    }
  })
  if (location.hash !== '') history.replaceState(history.state, '', location.pathname)
  return secret
}
