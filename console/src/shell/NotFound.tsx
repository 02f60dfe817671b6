import { t } from '@lingui/core/macro'
import { Link } from '@tanstack/react-router'
import { EmptyState } from '../parts/EmptyState.tsx'
import { Page } from '../parts/Page.tsx'

export function NotFound() {
  return (
    <Page title={t`Page not found`}>
      <EmptyState text={t`No page has this address. The link may be old or cut off.`}>
        <Link to="/">{t`Go to the start`}</Link>
      </EmptyState>
    </Page>
  )
}
