import { accountItems } from './nav-items.tsx'
import { Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'

/**
 * The frame of the pages that belong to the person: the account, and the application of a hoster. They need no
 * membership.
 */
export function AccountShell() {
  return (
    <SignedInOnly>
      <Shell items={accountItems} />
    </SignedInOnly>
  )
}
