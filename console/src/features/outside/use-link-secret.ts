import { useState } from 'react'

/**
 * Returns the secret of the link that opened the page: the part after #. Removes it from the address and the history.
 */
export function useLinkSecret(): string {
  const [secret] = useState(() => location.hash.slice(1))
  if (location.hash !== '') history.replaceState(history.state, '', location.pathname)
  return secret
}
