import { Link } from '@tanstack/react-router'
import { EmptyState } from '../parts/EmptyState.tsx'
import { Page } from '../parts/Page.tsx'

export function NotFound() {
  return (
    <Page title="Page not found">
      <EmptyState text="No page has this address. The link may be old or cut off.">
        <Link to="/">Go to the start</Link>
      </EmptyState>
    </Page>
  )
}
