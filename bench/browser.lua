-- a request as a browser sends it: some 800 bytes of headers
wrk.headers = {
  ["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
  ["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
  ["Accept-Language"] = "en,de;q=0.8",
  ["Accept-Encoding"] = "gzip, deflate, br, zstd",
  ["Cache-Control"] = "no-cache",
  ["Sec-Fetch-Dest"] = "document",
  ["Sec-Fetch-Mode"] = "navigate",
  ["Sec-Fetch-Site"] = "same-origin",
  ["Referer"] = "http://localhost:8000/accounts/login/",
  ["Cookie"] = "csrftoken=0123456789abcdef0123456789abcdef; sessionid=fedcba9876543210fedcba9876543210; theme=dark",
}
