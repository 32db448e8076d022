-- wrk sends POST requests whose body is the JSON behind `--` on its command line.
function init(args)
  wrk.method = "POST"
  wrk.body = args[1]
  wrk.headers["content-type"] = "application/json"
end
